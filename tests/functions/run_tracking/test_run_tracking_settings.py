"""Settings of the environment, checked."""

import pytest

from headrace.functions.run_tracking.settings import SettingsError, read_settings


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({}, ("127.0.0.1",)),
        ({"FRONTIER_URL": "https://runs.example/"}, ("runs.example",)),
        ({"ALLOWED_HOSTS": "a.example, b.example,"}, ("a.example", "b.example", "127.0.0.1")),
        ({"FRONTIER_HOST": "0.0.0.0", "FRONTIER_URL": "https://runs.example"}, ()),  # any
        ({"FRONTIER_HOST": "0.0.0.0", "ALLOWED_HOSTS": "a.example"}, ("a.example", "127.0.0.1")),
    ],
)
def test_a_frontier_is_asked_by_the_names_that_a_proxy_may_pass_on(
    variables: dict[str, str], names: tuple[str, ...]
) -> None:
    assert read_settings(variables).allowed_hosts == names


@pytest.mark.parametrize("url", ["runs.example", "http://["])
def test_an_url_without_a_name_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="FRONTIER_URL is"):
        read_settings({"FRONTIER_URL": url})

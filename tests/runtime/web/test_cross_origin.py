"""Which requests a page of another site has sent, and which names a server is asked by."""

import pytest
from multidict import CIMultiDict

from headrace.runtime.web.cross_origin import (
    AllowedHosts,
    CrossOriginGuard,
    cross_origin_refusal,
    is_form_type,
)

HOST = {"Host": "127.0.0.1:8080"}
LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def is_refused(method: str, headers: dict[str, str], *names: str) -> bool:
    return bool(cross_origin_refusal(method, CIMultiDict(HOST | headers), names))


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"origin": "http://evil.example", "upgrade": "websocket"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "null", "Host": ""},
        {"Origin": "http://", "Host": "x"},
        {"Origin": "http://127.0.0.1:9090"},  # another port is another site
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://localhost:8080"},
        {"Origin": "chrome-extension://127.0.0.1:8080"},
        {"Origin": "http://127.0.0.1:8080.evil.example"},
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "none"},
        {"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "what comes one day"},
        LINK | {"Sec-Fetch-Dest": "iframe"},
        LINK | {"Sec-Fetch-Mode": "no-cors"},
        LINK | {"Origin": "http://evil.example"},
    ],
)
def test_a_page_of_another_site_is_refused(method: str, headers: dict[str, str]) -> None:
    assert is_refused(method, headers)


@pytest.mark.parametrize(
    "headers",
    [
        {},  # curl, requests, aiohttp
        {"Content-Type": "text/plain"},
        {"Origin": "http://127.0.0.1:8080"},  # what websocket-client says, too
        {"Origin": "HTTP://127.0.0.1:8080", "Sec-Fetch-Site": "none"},
        {"Origin": "https://runs.example", "Host": "Runs.example"},
        {"Origin": "https://runs.example", "Host": "runs.example:443"},
        {"Origin": "http://runs.example", "Host": "runs.example:80"},
        {"Origin": "http://[::1]:90", "Host": "[::1]:90"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://runs.example"},  # by a proxy that changes Host
        {"Sec-Fetch-Site": "same-origin", "Origin": "null"},  # a form of a page with no-referrer
        {"Sec-Fetch-Site": "none"},  # typed in
    ],
)
def test_a_page_of_its_own_and_what_is_no_browser_may_ask(headers: dict[str, str]) -> None:
    assert not is_refused("POST", headers)


def test_a_link_may_be_followed_from_anywhere_and_nothing_sent_by_it() -> None:
    assert [is_refused(method, LINK) for method in ("GET", "HEAD", "POST")] == [False, False, True]


def test_an_origin_may_be_one_of_the_names_that_a_proxy_has() -> None:
    origin = {"Origin": "https://runs.example"}
    assert not is_refused("POST", origin, "runs.example")
    assert is_refused("POST", {"Origin": "https://runs.example:444"}, "runs.example")


@pytest.mark.parametrize(
    ("content_type", "is_one"),
    [
        ("text/plain", True),
        ("Text/Plain; charset=utf-8", True),
        ("application/x-www-form-urlencoded", True),
        ("multipart/form-data; boundary=x", True),
        ("application/json", False),
        ("application/json; text/plain", False),
        ("", False),
    ],
)
def test_bodies_that_pages_send_anywhere_are_known(content_type: str, is_one: object) -> None:
    assert is_form_type(content_type) is is_one


@pytest.mark.parametrize(
    ("listens", "given", "welcome", "refused"),
    [
        (
            "127.0.0.1",
            (),
            ["localhost", "LOCALHOST:9", "127.0.0.1:9", "127.8.8.8", "[::1]:9", None],
            ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example", "[", ""],
        ),
        (
            "::1",
            ("Runs.example",),
            ["runs.example:80", "RUNS.example", "[::1]", "localhost"],
            ["a.runs.example"],
        ),
        ("0.0.0.0", (), ["pod-1", "evil.example", "10.0.0.1", "", None], []),
        (
            "0.0.0.0",
            ("runs.example",),
            ["runs.example", "10.0.0.1:80", "[fd00::1]", "localhost", None],  # by addresses, probes ask
            ["evil.example", ""],
        ),
    ],
)
def test_a_server_answers_by_its_own_names(
    listens: str, given: tuple[str, ...], welcome: list[str | None], refused: list[str | None]
) -> None:
    names = AllowedHosts(listens, given)
    assert {asked: bool(names.refusal(asked)) for asked in [*welcome, *refused]} == {
        **dict.fromkeys(welcome, False),
        **dict.fromkeys(refused, True),
    }


def test_a_guard_looks_at_the_name_and_at_the_origin() -> None:
    guard = CrossOriginGuard("127.0.0.1", ("runs.example",))
    assert not guard.refusal("GET", HOST)
    assert "'evil.example' is no name" in guard.refusal("GET", {"Host": "evil.example"})
    assert "page of another site" in guard.refusal("GET", HOST | {"Origin": "http://evil.example"})

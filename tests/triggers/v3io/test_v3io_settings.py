"""What a v3ioStream trigger may be told, by attribute, annotation, field, url and environment."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.errors import ConfigError
from headrace.triggers.v3io.access import access_of
from headrace.triggers.v3io.trigger import V3ioTrigger

PLACE = {"containerName": "bigdata", "streamPath": "/orders", "consumerGroup": "g"}
URL = "http://v3io-webapi:8081/bigdata/my/stream@cg0"
KEY = "6d3f8f0e-8d3c-4a52-9f2e-1f5b3c7d9e10"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("V3IO_API", raising=False)
    monkeypatch.delenv("V3IO_ACCESS_KEY", raising=False)
    (tmp_path / "main.py").write_text("def handler(context, event): ...\n")

    def written(attributes: dict[str, Any] | None = None, **rest: Any) -> Any:
        annotations, spec = rest.pop("annotations", {}), rest.pop("spec", {})
        trigger = {"kind": "v3ioStream", "attributes": attributes or {}, **rest}
        document = {
            "metadata": {"name": "f", "annotations": annotations},
            "spec": {"handler": "main:handler", "triggers": {"t": trigger}, **spec},
        }
        (tmp_path / "function.yaml").write_text(yaml.safe_dump(document))
        return load_function(tmp_path)

    return written


def refusal(load: Any, *given: Any, **rest: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        load(*given, **rest)
    return str(refused.value)


def test_defaults_are_nuclios(load: Any) -> None:
    settings = load(url=URL).triggers[0].settings
    assert (settings.seek_to, settings.read_batch_size, settings.polling_interval_ms) == ("latest", 64, 250)
    assert (settings.session_timeout_seconds, settings.heartbeat_interval_seconds) == (10, 3)
    assert (settings.worker_allocation_mode, settings.ack_window_size) == ("pool", 0)
    assert settings.sequence_number_commit_interval_seconds == 1


def test_a_url_names_stream_and_group(load: Any) -> None:
    settings = load(url=URL).triggers[0].settings
    assert settings.web_api == "http://v3io-webapi:8081"
    assert (str(settings.stream), settings.topic) == ("bigdata/my/stream", "/my/stream")
    assert settings.consumer_group == "cg0"


def test_a_bare_url_goes_with_attributes(load: Any) -> None:
    settings = load(PLACE, url="v3io-webapi:8081").triggers[0].settings
    assert (settings.web_api, str(settings.stream)) == ("http://v3io-webapi:8081", "bigdata/orders")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://h:8081/bigdata/stream", "must contain @ indicating the consumer group"),
        ("http://h:8081/bigdata/a@b@c", "must contain @ indicating the consumer group"),
        ("http://h:8081/bigdata@g", "must contain the container's name and the stream's path"),
    ],
)
def test_a_url_that_names_no_stream_is_refused(load: Any, url: str, said: str) -> None:
    assert said in refusal(load, url=url)


def test_a_group_that_would_share_its_offsets_with_another_is_refused(load: Any) -> None:
    """`my-group` keeps them as `my_x2d_group`."""
    line = "'my_x2d_group' would keep its offsets where group 'my-group' does; take another name"
    assert line in refusal(load, {**PLACE, "consumerGroup": "my_x2d_group"}, url="http://h")
    assert load({**PLACE, "consumerGroup": "my-group"}, url="http://h")


@pytest.mark.parametrize("rest", ["?a=1", "#here"])
def test_a_url_with_more_than_a_place_is_refused(load: Any, rest: str) -> None:
    assert "has a ? or #" in refusal(load, url=URL + rest)


def test_what_is_escaped_in_a_url_and_slashes_too_many_mean_the_same_place(load: Any) -> None:
    assert str(load(url="http://h/big/my%20a@g").triggers[0].settings.stream) == "big/my a"
    given = {**PLACE, "streamPath": "//a//b/", "onFailure": {"then": "deadLetter", "deadLetterTopic": "c//d"}}
    settings = load(given, url="http://h").triggers[0].settings
    assert (str(settings.stream), str(settings.dead_letter_stream)) == ("bigdata/a/b", "bigdata/c/d")


def test_a_variable_of_the_platform_does_not_beat_the_file(
    load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("V3IO_API", "http://elsewhere:1")
    assert load(url=URL).triggers[0].settings.web_api == "http://v3io-webapi:8081"
    assert load(PLACE).triggers[0].settings.web_api == "http://elsewhere:1"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"password": "plain"}, "it is not used"),
        ({"password": "plain", "username": "u"}, ""),
        ({"password": "plain", "secret": "own"}, "password has no effect"),
        ({"password": KEY, "secret": "own"}, "secret has no effect"),
        ({"password": "$generate"}, "V3IO_ACCESS_KEY is empty"),
    ],
)
def test_what_does_not_sign_in_gets_a_line(
    load: Any, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], said: str
) -> None:
    monkeypatch.delenv("V3IO_ACCESS_KEY", raising=False)
    lines = [line for line in load(url=URL, **fields).notices if "webApi" in line]
    assert len(lines) == (1 if said else 0)
    assert said in "".join(lines)


def test_a_place_in_the_url_beside_attributes_gets_a_line(load: Any) -> None:
    function = load(PLACE, url=URL)
    assert str(function.triggers[0].settings.stream) == "bigdata/orders"
    assert any("no effect beside the attributes" in line for line in function.notices)


def test_an_unknown_annotation_of_the_trigger_is_refused(load: Any) -> None:
    said = refusal(load, url=URL, annotations={"nuclio.io/v3iostream-log-levl": "1"})
    assert "nuclio.io/v3iostream-log-level" in said


def test_a_place_in_parts_is_refused(load: Any) -> None:
    said = refusal(load, {"containerName": "bigdata"}, url=URL)
    assert "needs streamPath and consumerGroup beside it" in said


def test_without_any_place_or_address_each_is_asked_for(load: Any) -> None:
    said = refusal(load)
    assert "--embedded-v3io" in said
    assert "CONTAINER/STREAM@GROUP" in said


def test_keys_match_whatever_their_case_and_whole_floats_are_numbers(load: Any) -> None:
    given = {"READBATCHSIZE": 10.0, "pollingintervalms": 50}
    settings = load(given, url=URL).triggers[0].settings
    assert (settings.read_batch_size, settings.polling_interval_ms) == (10, 50)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("readBatchSize", "64"),
        ("seekTo", "newest"),
        ("workerAllocationMode", "shared"),
        ("sessionTimeout", "soon"),
        ("ackWindowSize", -1),
        ("heartbeatInterval", "10s"),
        ("consumerGroup", "a/b"),
        ("containerName", "a/b"),
    ],
)
def test_a_wrong_value_is_a_line_that_names_it(load: Any, key: str, value: object) -> None:
    said = refusal(load, {**PLACE, key: value}, url="h:1")
    assert f"attributes.{key}" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("mode", "allocation", "is_fine"),
    [
        ("enable", None, False),
        ("enable", "pool", False),
        ("explicitOnly", "pool", False),
        ("disable", None, True),
        ("disable", "pool", True),
        ("enable", "static", True),
        ("explicitOnly", "static", True),
    ],
)
def test_explicit_acks_need_static_allocation(
    load: Any, mode: str, allocation: str | None, is_fine: bool
) -> None:
    given = {"workerAllocationMode": allocation} if allocation else {}
    rest = {"url": URL, "explicitAckMode": mode, "numWorkers": 2}
    if is_fine:
        load(given, **rest)
    else:
        assert "must be static" in refusal(load, given, **rest)


def test_annotations_are_nuclios(load: Any) -> None:
    annotations = {
        "custom.nuclio.io/v3iostream-window-size": "7",
        "nuclio.io/v3iostream-worker-allocation-mode": "static",
        "nuclio.io/v3iostream-log-level": "3",
        "nuclio.io/v3iostream-explicit-ack-mode": "explicitOnly",
    }
    spec = load(url=URL, annotations=annotations).triggers[0]
    assert (spec.settings.ack_window_size, spec.settings.worker_allocation_mode) == (7, "static")
    assert spec.explicit_ack_mode == "explicitOnly"


def test_replicas_that_may_vary_are_refused(load: Any) -> None:
    for least in (0, 1):
        said = refusal(load, url=URL, spec={"minReplicas": least, "maxReplicas": 3})
        assert "v3ioStream trigger does not support autoscaling" in said
    assert load(url=URL, spec={"minReplicas": 3, "maxReplicas": 3}).triggers[0].replica_count == 3


@pytest.mark.parametrize(
    ("spec", "count"), [({}, 1), ({"replicas": 3}, 3), ({"replicas": 2, "maxReplicas": 5}, 2)]
)
def test_replicas_say_how_many_share_the_stream(load: Any, spec: dict[str, int], count: int) -> None:
    assert load(url=URL, spec=spec).triggers[0].replica_count == count


def test_what_is_deprecated_is_taken_without_effect_and_each_gets_a_line(load: Any) -> None:
    function = load(
        url=URL,
        partitions=[0, 1],
        workerAvailabilityTimeoutMilliseconds=1000,
        workerAllocatorName="shared",
    )
    assert function.triggers[0].fields.worker_allocator_name == ""
    for key in ("partitions", "workerAvailabilityTimeoutMilliseconds", "workerAllocatorName"):
        assert len([line for line in function.notices if key in line]) == 1, key


def test_other_names_of_the_stream_in_acks_are_the_stream(load: Any) -> None:
    settings = load(url=URL).triggers[0].settings
    assert V3ioTrigger.delivery(settings, load(url=URL).triggers[0].fields).topic_aliases["/"] == "/my/stream"
    assert settings.topic_aliases["my/stream/"] == "/my/stream"


@pytest.mark.parametrize(
    ("password", "secret", "env", "access_key", "left"),
    [
        (KEY, "", {}, KEY, ""),
        ("$generate", "", {"V3IO_ACCESS_KEY": "made"}, "made", ""),
        ("$generate", "own", {"V3IO_ACCESS_KEY": "made"}, "made", ""),
        ("$generate", "", {}, "$generate", ""),
        ("plain", "own", {}, "own", "plain"),
        ("", "", {}, "", ""),
        ("", "", {"V3IO_ACCESS_KEY": "made"}, "made", ""),
    ],
)
def test_who_signs_in_follows_nuclios_rules(
    password: str, secret: str, env: dict[str, str], access_key: str, left: str
) -> None:
    access = access_of("http://h", "u", password, secret, env)
    assert (access.access_key, access.password) == (access_key, left)


def test_secrets_are_never_shown(load: Any) -> None:
    function = load(url=URL, password="hush", secret="hushed")
    assert "hush" not in repr(function)
    assert "hush" not in repr(access_of("http://h", "u", "hush", "hushed", {}))

"""What a function.yaml is refused for, and in which words: whatever stands in it, lines without secrets."""

import contextlib
import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from function_files import (
    FULL,
    KINDS,
    VALID,
    Change,
    load_changed,
    load_text,
    problems_of,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.errors import ConfigError


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: No such file.*expected a function\.yaml"):
        load_function(tmp_path, KINDS)


@pytest.mark.parametrize("text", ["", "- a", "just text"])
def test_a_file_without_a_mapping_is_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="is empty or no mapping"):
        load_text(tmp_path, text)


def test_every_problem_of_a_file_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_text(
            tmp_path,
            """\
            apiVersion: v1
            metadata:
              name: f
              annotations:
                nuclio.io/kafka-session-timout: 10s
                nuclio.io/kafka-fetch-min: x
                my.own/annotation: free
            spec:
              handlr: main:handler
              env:
                - {name: A, value: [5]}
              triggers:
                t:
                  kind: kafka
                  numWorkerz: 2
                  attributes:
                    topics: a
                    brokers: [x:9092]
                    consumerGroup: g
                    sessionTimeout: '10'
                    FETCHMAX: -1
                    sasl: {enable: true, user: u}
            """,
        )
    at = "spec.triggers.t.attributes"
    assert [str(problem).removeprefix(f"{tmp_path}/function.yaml:") for problem in raised.value.problems] == [
        "1: apiVersion: 'v1' is not known here; expected 'nuclio.io/v1' or 'nuclio.io/v1beta1'",
        (
            "5: metadata.annotations.nuclio.io/kafka-session-timout: unknown annotation;"
            " the nearest known one is nuclio.io/kafka-session-timeout"
        ),
        "6: metadata.annotations.nuclio.io/kafka-fetch-min: 'x' is not an int; expected a whole number",
        "8: spec.handler: is required: write handler: module:function, such as main:handler",
        "9: spec.handlr: unknown key; the nearest known key is handler",
        "11: spec.env[0].value: expected text, a number, true or false",
        "15: spec.triggers.t.numWorkerz: unknown key; the nearest known key is numWorkers",
        f"17: {at}.topics: 'a' is not a list of strings; expected lines such as `- one`",
        f"20: {at}.sessionTimeout: '10' is not a duration; expected something like 10s or 1m30s",
        f"21: {at}.FETCHMAX: -1 is out of range; expected at least 0",
        f"22: {at}.sasl.password: is required: sasl.enable is true and PLAIN needs it",
    ]


@pytest.mark.parametrize("handler", ["main", "main:", ":handler", "a/b:handler", "main:a.b", "main:1"])
def test_another_handler_is_refused(tmp_path: Path, handler: str) -> None:
    text = problems_of(tmp_path, lambda d: d["spec"].update(handler=handler))
    assert "expected module:function, such as main:handler" in text


def test_a_problem_is_one_line_whatever_the_file_holds(tmp_path: Path) -> None:
    name = "a\nb\x1b[31m" + "x" * 5000
    text = problems_of(tmp_path, lambda d: d["spec"]["triggers"]["t"].update({"name": name, name: 1}))
    assert len(text.splitlines()) == 2
    assert all(line.isprintable() and len(line) < 600 for line in text.splitlines())
    assert "must equal its key, 't'" in text


def test_metadata_without_a_name_is_refused(tmp_path: Path) -> None:
    assert "metadata.name: is required" in problems_of(tmp_path, lambda d: d["metadata"].pop("name"))


@pytest.mark.parametrize("runtime", ["golang", "nodejs", "python3"])
def test_other_languages_are_refused(tmp_path: Path, runtime: str) -> None:
    text = problems_of(tmp_path, lambda d: d["spec"].update(runtime=runtime))
    assert f"spec.runtime: {runtime!r} is not built in" in text


def test_a_wrong_key_in_build_is_found(tmp_path: Path) -> None:
    text = problems_of(tmp_path, lambda d: d["spec"].update(build={"comands": []}))
    assert "spec.build.comands: unknown key; the nearest known key is commands" in text


def test_what_is_not_built_yet_is_refused(tmp_path: Path) -> None:
    unbuilt = {"balanceStrategy": "cooperative"}
    text = problems_of(tmp_path, lambda d: d["spec"]["triggers"]["t"]["attributes"].update(unbuilt))
    assert "is known, but not built into this version of Headrace yet; built: range" in text


@pytest.mark.parametrize("kind", ["http", "nats", "v3ioStream", "kinesis"])
def test_nuclios_other_kinds_are_known_and_not_built(tmp_path: Path, kind: str) -> None:
    text = problems_of(tmp_path, lambda d: d["spec"]["triggers"].update(h={"kind": kind}))
    assert f"spec.triggers.h.kind: {kind!r} is known, but not built into this version" in text


def test_an_unknown_kind_names_the_nearest(tmp_path: Path) -> None:
    text = problems_of(tmp_path, lambda d: d["spec"]["triggers"]["t"].update(kind="kafka-clutser"))
    assert "the nearest known kind is kafka-cluster" in text


def test_a_function_without_an_enabled_trigger_is_refused(tmp_path: Path) -> None:
    def disable(document: dict[str, Any]) -> None:
        document["spec"]["triggers"]["t"]["disabled"] = True

    assert "no trigger is enabled" in problems_of(tmp_path, disable)
    assert "no trigger is enabled" in problems_of(tmp_path, lambda d: d["spec"].pop("triggers"))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"numWorkers": 100_001}, "100001 is out of range; expected at most 100000"),
        ({"numWorkers": True}, "true is not an int"),
        ({"name": "other"}, "'other' must equal its key, 't'"),
        ({"explicitAckMode": "implicit"}, "'implicit' is not known here; expected 'disable', 'enable' or"),
        ({"batch": {"size": 1}}, "batch.size: unknown key; the nearest known key is batchSize"),
        ({"workerTerminationTimeout": "-1s"}, "'-1s' is out of range; expected at least 0s"),
        ({"kind": None}, "kind: is required: say what the events come from"),
        ({"attributes": []}, "attributes: this is no mapping"),
    ],
)
def test_wrong_trigger_fields_are_refused(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    assert says in problems_of(tmp_path, lambda d: d["spec"]["triggers"]["t"].update(fields))


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            {"level": "debug", "redactions": []},
            "entry 0 has more than level and sink, which nothing here knows",
        ),
        ({"level": "loud"}, "expected a list of entries with level: debug, info, warn or error"),
        ("debug", "expected a list of entries with level: debug, info, warn or error"),
    ],
)
def test_a_logger_sink_that_is_not_honoured_is_refused(tmp_path: Path, entry: object, says: str) -> None:
    said = problems_of(tmp_path, lambda d: d["spec"].update(loggerSinks=[entry]))
    assert "spec.loggerSinks: " in said
    assert says in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("sink", ["stdout", "", "myStdoutLoggerSink", "myElastic"])
def test_the_log_of_the_run_stands_for_each_sink_and_another_one_is_noticed(
    tmp_path: Path, sink: str
) -> None:
    entry = {"level": "debug", "sink": sink}
    function = load_changed(tmp_path, lambda d: d["spec"].update(loggerSinks=[entry]))
    assert function.handler_log_level == 10
    said = [str(it) for it in function.notices if "the sink myElastic has no effect" in str(it)]
    assert len(said) == (sink == "myElastic")


def test_one_allocator_name_is_harmless_and_one_of_two_streams_is_refused(tmp_path: Path) -> None:
    def share(document: dict[str, Any]) -> None:
        triggers = document["spec"]["triggers"]
        triggers["t"]["workerAllocatorName"] = "pool"
        triggers["u"] = copy.deepcopy(triggers["t"])

    named = load_changed(tmp_path, lambda d: d["spec"]["triggers"]["t"].update(workerAllocatorName="p"))
    assert len(named.triggers) == 1
    text = problems_of(tmp_path, share)
    assert (
        "spec.triggers.u.workerAllocatorName: sharing workers with trigger 't', another stream, is known"
        in text
    )


def test_one_wrong_annotation_is_reported_once_for_all_triggers(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["metadata"]["annotations"] = {"nuclio.io/kafka-fetch-min": "x"}
        document["spec"]["triggers"]["u"] = copy.deepcopy(document["spec"]["triggers"]["t"])

    assert problems_of(tmp_path, change).count("\n") == 0


def _secret_places(secret: object) -> list[Change]:
    attributes = ("caCert", "accessKey", "accessCertificate")

    def attribute(key: str) -> Change:
        return lambda d: d["spec"]["triggers"]["t"]["attributes"].update({key: secret})

    def annotation(key: str) -> Change:
        return lambda d: d["metadata"]["annotations"].update({f"nuclio.io/kafka-{key}": secret})

    def field(key: str) -> Change:
        return lambda d: d["spec"]["triggers"]["t"].update({key: secret})

    return [
        *map(attribute, attributes),
        *map(annotation, ("ca-cert", "access-key", "access-cert", "sasl-password")),
        *map(annotation, ("sasl-oauth-client-secret",)),
        *map(field, ("password", "secret")),
        lambda d: d["spec"]["triggers"]["t"]["attributes"].update(sasl={"password": secret}),
        lambda d: d["spec"]["triggers"]["t"]["attributes"].update(sasl={"pasword": secret}),
        lambda d: d["spec"]["triggers"]["t"]["attributes"].update(sasl=secret),
        lambda d: d["spec"]["triggers"]["t"]["attributes"].update(sasl={"oauth": {"clientSecret": secret}}),
        lambda d: d["spec"].update(env=[{"name": "A", "value": secret}]),
    ]


@pytest.mark.parametrize("secret", ["hunter2", ["hunter2"], {"a": "hunter2"}, "hunter2 " * 99])
def test_no_message_shows_a_secret(tmp_path: Path, secret: object) -> None:
    shown = "".join(_everything_shown(tmp_path, place) for place in _secret_places(secret))
    assert "not shown" in shown
    assert "hunter2" not in shown


def _everything_shown(folder: Path, change: Change) -> str:
    try:
        return repr(load_changed(folder, change))
    except ConfigError as error:
        return f"{error} {error.problems!r}"


YAML_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _paths(node: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(found for key, value in pairs for found in _paths(value, (*path, key)))]


def _replaced(document: Any, path: tuple[Any, ...], value: object) -> Any:
    if not path:
        return value
    document = copy.copy(document)
    document[path[0]] = _replaced(document[path[0]], path[1:], value)
    return document


def _loads_or_says_why(folder: Path, text: str) -> None:
    with contextlib.suppress(ConfigError):
        load_text(folder, text)


ANY_TIME = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@ANY_TIME
@given(path=st.sampled_from(_paths(FULL)), value=YAML_VALUES)
def test_any_change_of_a_file_gives_a_function_or_problems(
    tmp_path: Path, path: tuple[Any, ...], value: object
) -> None:
    changed = _replaced(FULL, path, value)
    _loads_or_says_why(tmp_path, yaml.safe_dump(changed, allow_unicode=True))


@ANY_TIME
@given(text=st.text() | YAML_VALUES.map(yaml.safe_dump))
def test_any_text_gives_a_function_or_problems(tmp_path: Path, text: str) -> None:
    _loads_or_says_why(tmp_path, text)


@ANY_TIME
@given(data=st.data())
def test_any_cut_or_inserted_character_gives_a_function_or_problems(
    tmp_path: Path, data: st.DataObject
) -> None:
    text = yaml.safe_dump(VALID)
    at = data.draw(st.integers(0, len(text)))
    _loads_or_says_why(tmp_path, text[:at] + data.draw(st.text(max_size=3)) + text[at + 1 :])

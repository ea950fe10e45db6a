"""function.yaml to FunctionSpec: what is accepted, what is refused, and in which words."""

import contextlib
import copy
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from function_files import (
    FULL,
    KINDS,
    NUCLIOS_EXAMPLE,
    SPECS,
    VALID,
    Change,
    load_changed,
    load_text,
    problems_of,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.runtime.config.function import load_function
from headrace.runtime.config.trigger_kinds import installed_kinds
from headrace.runtime.errors import ConfigError
from headrace.triggers.kafka.settings.model import KafkaSettings


def test_a_valid_file_becomes_a_function(tmp_path: Path) -> None:
    function = load_changed(tmp_path, lambda _: None)
    assert (function.name, function.namespace, function.folder) == ("orders", "nuclio", tmp_path)
    assert (function.handler_module, function.handler_function) == ("main", "handler")
    (trigger,) = function.triggers
    assert (trigger.name, trigger.kind, trigger.num_workers) == ("t", "kafka-cluster", 1)
    assert trigger.worker_termination_timeout_seconds == 10
    assert trigger.explicit_ack_mode == "disable"
    assert trigger.fields.wait_explicit_ack_during_rebalance_timeout_seconds == 0.1
    assert function.notices == ()


def test_the_configuration_example_of_nuclios_page_is_valid(tmp_path: Path) -> None:
    example = {
        "apiVersion": "nuclio.io/v1",
        "kind": "NuclioFunction",
        "metadata": {"name": "example"},
        "spec": {"handler": "main:handler", "runtime": "python:3.11"} | NUCLIOS_EXAMPLE,
    }
    function = load_text(tmp_path, yaml.safe_dump(example))
    own = function.triggers[0].settings
    assert isinstance(own, KafkaSettings)
    assert (own.sasl.mechanism, own.sasl.password, own.uses_tls) == ("SCRAM-SHA-256", "s3rv3rl3ss", True)


def test_the_installed_kafka_trigger_is_found() -> None:
    assert "kafka-cluster" in installed_kinds()


def test_the_file_itself_may_be_named_too(tmp_path: Path) -> None:
    load_changed(tmp_path, lambda _: None)
    assert load_function(tmp_path / "function.yaml", KINDS).name == "orders"


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


@pytest.mark.parametrize(
    ("handler", "module"), [("main:handler", "main"), ("a.b-c:handler", "a.b-c"), ("main.py:handler", "main")]
)
def test_a_handler_is_a_module_and_a_function(tmp_path: Path, handler: str, module: str) -> None:
    function = load_changed(tmp_path, lambda d: d["spec"].update(handler=handler))
    assert (function.handler, function.handler_module) == (handler, module)
    assert function.handler_function == "handler"


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


def test_the_folder_names_a_function_without_metadata(tmp_path: Path) -> None:
    (folder := tmp_path / "My_orders.v2").mkdir()
    function = load_changed(folder, lambda d: d.pop("metadata"))
    assert function.name == "my-orders-v2"  # as Kubernetes takes it
    assert "the function is named my-orders-v2" in function.notices[0]


def test_metadata_without_a_name_is_refused(tmp_path: Path) -> None:
    assert "metadata.name: is required" in problems_of(tmp_path, lambda d: d["metadata"].pop("name"))


@pytest.mark.parametrize("runtime", ["golang", "nodejs", "python3"])
def test_other_languages_are_refused(tmp_path: Path, runtime: str) -> None:
    text = problems_of(tmp_path, lambda d: d["spec"].update(runtime=runtime))
    assert f"spec.runtime: {runtime!r} is not built in" in text


def test_another_python_version_is_said(tmp_path: Path) -> None:
    function = load_changed(tmp_path, lambda d: d["spec"].update(runtime="python:3.6"))
    assert "not 3.6" in function.notices[0]


def test_environment_variables_keep_their_text(tmp_path: Path) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "C", "valueFrom": {"secretKeyRef": {}}}]
    function = load_changed(tmp_path, lambda d: d["spec"].update(env=env))
    assert function.env == {"A": "1", "B": ""}
    assert "spec.env[2].valueFrom: is left out" in function.notices[0]


def test_what_means_nothing_here_is_one_line_each(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["status"] = {"state": "ready"}
        document["metadata"]["labels"] = {"nuclio.io/project-name": "p"}
        document["spec"] |= {
            "replicas": 2,
            "loggerSinks": [{"level": "debug"}],
            "eventTimeout": "",
            "resources": {"requests": {"cpu": "1"}},
            "build": {"commands": ["pip install x"], "noCache": True},
        }
        document["spec"]["triggers"]["t"]["class"] = "async"

    notices = load_changed(tmp_path, change).notices
    assert len(notices) == 5
    for path in ("status", "spec.replicas", "spec.build", "spec.triggers.t.class"):
        assert sum(f" {path}: has no effect here: " in notice for notice in notices) == 1


def test_a_wrong_key_in_build_is_found(tmp_path: Path) -> None:
    text = problems_of(tmp_path, lambda d: d["spec"].update(build={"comands": []}))
    assert "spec.build.comands: unknown key; the nearest known key is commands" in text


def test_what_is_not_built_yet_is_refused(tmp_path: Path) -> None:
    unbuilt = {"topicPattern": "orders-.*"}
    text = problems_of(tmp_path, lambda d: d["spec"]["triggers"]["t"]["attributes"].update(unbuilt))
    assert "is known, but not built into this version of Headrace yet; remove it" in text


@pytest.mark.parametrize("kind", ["http", "nats", "v3ioStream", "kinesis"])
def test_nuclios_other_kinds_are_known_and_not_built(tmp_path: Path, kind: str) -> None:
    text = problems_of(tmp_path, lambda d: d["spec"]["triggers"].update(h={"kind": kind}))
    assert f"spec.triggers.h.kind: {kind!r} is known, but not built into this version" in text


def test_an_unknown_kind_names_the_nearest(tmp_path: Path) -> None:
    text = problems_of(tmp_path, lambda d: d["spec"]["triggers"]["t"].update(kind="kafka-clutser"))
    assert "the nearest known kind is kafka-cluster" in text


def test_an_alias_stands_for_the_kind(tmp_path: Path) -> None:
    function = load_changed(tmp_path, lambda d: d["spec"]["triggers"]["t"].update(kind="kafka"))
    assert function.triggers[0].kind == "kafka-cluster"


def test_a_disabled_trigger_is_left_out_whatever_its_kind(tmp_path: Path) -> None:
    disabled = {"kind": "http", "disabled": True}
    function = load_changed(tmp_path, lambda d: d["spec"]["triggers"].update(h=disabled))
    assert [trigger.name for trigger in function.triggers] == ["t"]
    assert "spec.triggers.h.disabled: the trigger is disabled" in function.notices[0]


def test_a_function_without_an_enabled_trigger_is_refused(tmp_path: Path) -> None:
    def disable(document: dict[str, Any]) -> None:
        document["spec"]["triggers"]["t"]["disabled"] = True

    assert "no trigger is enabled" in problems_of(tmp_path, disable)
    assert "no trigger is enabled" in problems_of(tmp_path, lambda d: d["spec"].pop("triggers"))


def test_a_disabled_function_says_so(tmp_path: Path) -> None:
    function = load_changed(tmp_path, lambda d: d["spec"].update(disable=True))
    assert function.disabled
    assert "the function is disabled" in function.notices[0]


@pytest.mark.parametrize(
    ("fields", "workers"),
    [
        ({}, 1),
        ({"numWorkers": 0}, 1),
        ({"numWorkers": 4, "maxWorkers": 8}, 4),
        ({"numWorkers": 0, "maxWorkers": 8}, 8),
        ({"maxWorkers": 8}, 8),
    ],
)
def test_num_workers_counts_before_its_old_spelling(
    tmp_path: Path, fields: dict[str, int], workers: int
) -> None:
    function = load_changed(tmp_path, lambda d: d["spec"]["triggers"]["t"].update(fields))
    assert function.triggers[0].num_workers == workers


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
    ("written", "mode"),
    [
        *[("disable", "disable"), ("disabled", "disable"), ("", "disable")],
        *[("enable", "enable"), ("enabled", "enable"), ("explicitOnly", "explicitOnly")],
    ],
)
def test_an_explicit_ack_mode_may_be_given_in_nuclios_spellings(
    tmp_path: Path, written: str, mode: str
) -> None:
    def change(document: dict[str, Any]) -> None:
        trigger = document["spec"]["triggers"]["t"]
        trigger["explicitAckMode"] = written
        trigger["attributes"]["workerAllocationMode"] = "static"

    assert load_changed(tmp_path, change).triggers[0].explicit_ack_mode == mode


def test_the_trigger_fields_annotations_apply(tmp_path: Path) -> None:
    def annotate(document: dict[str, Any]) -> None:
        document["metadata"]["annotations"] = {
            "nuclio.io/wait-explicit-ack-during-rebalance-timeout": "2s",
            "nuclio.io/kafka-explicit-ack-mode": "disabled",
        }

    trigger = load_changed(tmp_path, annotate).triggers[0]
    assert trigger.fields.wait_explicit_ack_during_rebalance_timeout_seconds == 2

    def explicit_with_a_pool(document: dict[str, Any]) -> None:
        document["metadata"]["annotations"] = {"nuclio.io/kafka-explicit-ack-mode": "explicitOnly"}
        document["spec"]["triggers"]["t"]["numWorkers"] = 2

    text = problems_of(tmp_path, explicit_with_a_pool)
    assert "workerAllocationMode: must be static with explicitAckMode explicitOnly" in text


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


def test_annotations_are_text(tmp_path: Path) -> None:
    annotation = {"annotations": {"nuclio.io/kafka-fetch-min": [5]}}
    text = problems_of(tmp_path, lambda d: d["metadata"].update(annotation))
    assert "an annotation is text, not a list or a mapping" in text


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


@pytest.mark.parametrize("name", ["kafka-minimal", "kafka-full", "spark-full"])
def test_the_published_examples_load_without_a_notice(tmp_path: Path, name: str) -> None:
    text = (SPECS / f"{name}.yaml").read_text()
    text = text.replace("python:3.11", f"python:{sys.version_info.major}.{sys.version_info.minor}")
    assert load_text(tmp_path, text).notices == ()


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

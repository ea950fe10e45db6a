"""`${NAME}` in a function.yaml, and brokers that it doesn't name."""

from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from command import run
from function_files import load_changed, problems_of
from kafka_records import produce
from replica import lines, replica, set_trigger, wait_until, write_function

from headrace.runtime.settings.written_values import MissingVariableError, expanded

TRIGGER = "spec.triggers.t"
HANDLER = """
    def handler(context, event):
        write(event.offset)
"""


@pytest.mark.parametrize(
    ("written", "value", "taken"),
    [
        ("${A}", "1", ("A",)),
        ("x${A}-${A}${B}", "x1-1two", ("A", "B")),
        ("${NO:-d}", "d", ()),
        ("${NO:-}", "", ()),
        ("${EMPTY:-d}", "d", ()),
        ("${EMPTY}", "", ("EMPTY",)),
        ("${A:-d}", "1", ("A",)),
        ("$${A} $$ $A ${a.b} ${} $(A)", "${A} $$ $A ${a.b} ${} $(A)", ()),
        (["${A}", 5, "x"], ["1", 5, "x"], ("A",)),
        (5, 5, ()),
    ],
)
def test_a_reference_stands_for_its_variable(written: object, value: object, taken: tuple[str, ...]) -> None:
    assert expanded(written, {"A": "1", "B": "two", "EMPTY": ""}) == (value, taken)


def test_a_missing_variable_without_a_default_is_an_error() -> None:
    with pytest.raises(MissingVariableError, match=r"no variable NO: set it, or write \${NO:-default}, or"):
        expanded("${NO}", {})


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "BROKERS": "x:1,y:2",
        "WORKERS": "3",
        "PASSWORD": "hunter2",
        "TLS": "true",
        "WAIT": "20s",
        "BAD": "s0on",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"T_{name}", value)


def _change(document: dict[str, Any]) -> None:
    document["metadata"]["annotations"]["nuclio.io/kafka-session-timeout"] = "${T_WAIT}"
    document["metadata"]["labels"] = {"a": "${T_MISSING}"}
    spec = document["spec"]
    spec["build"] = {"commands": ["echo ${T_MISSING}"]}
    spec["env"] = [{"name": "DSN", "value": "db://${T_PASSWORD}@${T_HOST:-localhost}"}]
    spec["triggers"]["t"]["numWorkers"] = "${T_WORKERS}"
    spec["triggers"]["t"]["attributes"] |= {
        "brokers": "${T_BROKERS}",
        "topics": ["${T_TOPIC:-orders}"],
        "tls": {"enable": "${T_TLS}"},
        "sasl": {"enable": True, "user": "u", "password": "${T_PASSWORD}"},
    }


@pytest.mark.usefixtures("variables")
def test_values_of_every_type_may_be_variables(tmp_path: Path) -> None:
    function = load_changed(tmp_path, _change)
    own = function.triggers[0].settings
    assert function.triggers[0].num_workers == 3
    assert (own.brokers, own.topics, own.tls.enable) == (("x:1", "y:2"), ("orders",), True)
    assert (own.sasl.password, own.session_timeout_seconds) == ("hunter2", 20)
    assert function.env == {"DSN": "db://hunter2@localhost"}


@pytest.mark.usefixtures("variables")
def test_what_is_in_effect_names_the_variable_and_hides_secrets(tmp_path: Path) -> None:
    shown = {setting.path: setting for setting in load_changed(tmp_path, _change).settings}
    brokers = shown[f"{TRIGGER}.attributes.brokers"]
    assert (brokers.value, brokers.origin, brokers.key) == (["x:1", "y:2"], "environment", "T_BROKERS")
    assert brokers.line > 0
    for path in (f"{TRIGGER}.attributes.sasl.password", "spec.env.DSN"):
        assert (shown[path].value, shown[path].origin) == ("(set, not shown)", "environment")
        assert shown[path].key == "T_PASSWORD"
    assert shown[f"{TRIGGER}.attributes.topics"].origin == "attribute"
    assert "hunter2" not in str(shown)


@pytest.mark.parametrize("at", ["env", "attribute", "annotation"])
def test_a_missing_variable_is_one_line_with_name_path_and_line(tmp_path: Path, at: str) -> None:
    def change(document: dict[str, Any]) -> None:
        if at == "env":
            document["spec"]["env"] = [{"name": "A", "value": "${T_MISSING}"}]
        elif at == "attribute":
            document["spec"]["triggers"]["t"]["attributes"]["topics"] = ["${T_MISSING}"]
        else:
            document["metadata"]["annotations"]["nuclio.io/kafka-fetch-min"] = "${T_MISSING}"

    text = problems_of(tmp_path, change)
    paths = {
        "env": "spec.env[0].value",
        "attribute": f"{TRIGGER}.attributes.topics",
        "annotation": "metadata.annotations.nuclio.io/kafka-fetch-min",
    }
    assert f" {paths[at]}: the environment has no variable T_MISSING: " in text
    assert "\n" not in text
    assert "function.yaml:0" not in text


@pytest.mark.usefixtures("variables")
def test_a_wrong_value_of_a_variable_is_not_shown(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["triggers"]["t"]["attributes"]["sessionTimeout"] = "${T_BAD}"

    text = problems_of(tmp_path, change)
    assert "sessionTimeout: the value (not shown) is not a duration" in text
    assert "s0on" not in text


WITHOUT_BROKERS = """
metadata: {name: f}
spec:
  handler: main:handler
  triggers:
    t: {kind: kafka, attributes: {topics: [a], consumerGroup: g}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "function.yaml").write_text(WITHOUT_BROKERS)
    (tmp_path / "main.py").write_text("def handler(context, event): ...\n")
    return tmp_path


def test_a_trigger_without_brokers_is_one_line_that_says_what_would_do(folder: Path) -> None:
    result = run("validate", str(folder))
    assert result.stdout.strip().endswith(
        "brokers: is required: a list of at least one host:port, or the trigger's url, --brokers,"
        " --embedded-kafka or HEADRACE_BROKERS"
    )


@pytest.mark.full_but('arguments0--[[]"a:1", "b:2"]')
@pytest.mark.parametrize(
    ("arguments", "variable", "shown"),
    [
        (("--brokers", "a:1,b:2"), "", '["a:1", "b:2"]'),
        ((), "c:3", "environment HEADRACE_BROKERS"),
        (("--embedded-kafka",), "", '["embedded-kafka"]'),
        (("--embedded-kafka",), "c:3", '["embedded-kafka"]'),
        (("--brokers", "a:1"), "c:3", "command line"),
    ],
)
def test_brokers_may_be_given_beside_the_file(
    folder: Path, arguments: tuple[str, ...], variable: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_BROKERS", variable)
    result = run("validate", str(folder), "--resolved", *arguments)
    assert result.returncode == 0, result.stdout
    (line,) = [line for line in result.stdout.splitlines() if ".attributes.brokers " in line]
    assert shown in line


def test_a_file_whose_brokers_give_way_to_the_environment_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "function.yaml"
    file.write_text(WITHOUT_BROKERS.replace("topics: [a]", "topics: [a], brokers: [own:1]"))
    monkeypatch.setenv("HEADRACE_BROKERS", "c:3")
    result = run("validate", str(folder))
    assert "attributes.brokers: gives way to HEADRACE_BROKERS of the environment" in result.stdout


@pytest.mark.full_but("False")
@pytest.mark.parametrize("embedded", [False, True])
def test_a_function_without_brokers_runs(
    broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, embedded: bool
) -> None:
    folder = write_function(tmp_path / "f", HANDLER, "unused:1", [topic])
    set_trigger(folder, attributes={"topics": [topic], "consumerGroup": "g"})
    monkeypatch.setenv("HEADRACE_BROKERS", "127.0.0.1:1" if embedded else broker.bootstrap)
    produce(broker, topic, 8)
    with replica(folder, "--replicas", "2", *(["--embedded-kafka"] if embedded else [])) as running:
        if embedded:  # its topic is empty
            wait_until(lambda: "connected to 127.0.0.1" in running.log, about=running)
        else:
            wait_until(lambda: len(lines(folder)) == 8, about=running)


OTHERS = """
metadata: {name: f}
spec:
  handler: main:handler
  triggers:
    t: {kind: kafka, attributes: {topics: [a], consumerGroup: g, brokers: [b:1]}}
    web: {kind: http, maxWorkers: 4, attributes: {port: 8080, ingresses: {}}}
    ticks: {kind: cron, attributes: {interval: 1m}}
"""


def test_triggers_that_are_not_built_name_what_leaves_them_out(folder: Path) -> None:
    (folder / "function.yaml").write_text(OTHERS.replace("http", "mqtt").replace("cron", "nats"))
    lines = run("validate", str(folder)).stdout.splitlines()
    refused = "is known, but not built into this version of Headrace yet; leave the trigger out with"
    assert [line.partition(": ")[2] for line in lines] == [
        f"spec.triggers.{name}.kind: {kind!r} {refused} --set triggers.{name}.disabled=true or --only-kafka,"
        " or write disabled: true in it"
        for name, kind in (("web", "mqtt"), ("ticks", "nats"))
    ]


def test_only_kafka_leaves_them_out_with_a_notice(folder: Path) -> None:
    (folder / "function.yaml").write_text(OTHERS)
    result = run("validate", str(folder), "--only-kafka")
    assert result.returncode == 0
    assert "spec.triggers.web.kind: the trigger is left out: only kafka-cluster is asked for" in result.stdout
    assert "spec.triggers.ticks.kind: the trigger is left out" in result.stdout


def test_only_kafka_does_not_hide_a_kind_that_nobody_knows(folder: Path) -> None:
    (folder / "function.yaml").write_text(OTHERS.replace("cron", "corn"))
    result = run("validate", str(folder), "--only-kafka")
    assert "'corn' is no trigger kind; the nearest known kind is cron" in result.stdout

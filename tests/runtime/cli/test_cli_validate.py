"""`headrace validate`, as a person and a program meet it: mistakes, and what is in effect."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from command import one_line, run
from function_files import NUCLIOS_EXAMPLE
from replica import PROGRAM, environment
from root import ROOT

HANDLER = "def handler(context, event): ...\n"
FUNCTION = """\
apiVersion: nuclio.io/v1
kind: NuclioFunction
metadata:
  name: orders
  annotations:
    my.own/key: free
spec:
  handler: main:handler
  triggers:
    t:
      kind: kafka-cluster
      attributes:
        topics: [orders]
        brokers: ["127.0.0.1:1"]
        consumerGroup: g
        sasl: {enable: true, user: u, password: hunter2}
"""
AT = "spec.triggers.t.attributes"
NEXT_TO = "        topics: [orders]\n"


def attribute(line: str) -> Callable[[str], str]:
    """The function with one more attribute, on line 13."""
    return lambda text: text.replace(NEXT_TO, f"        {line}\n{NEXT_TO}")


def changed(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


MISTAKES: dict[str, tuple[Callable[[str], str], str]] = {
    "unknown-attribute": (
        attribute("sessionTimout: 10s"),
        f":13: {AT}.sessionTimout: unknown key; the nearest known key is sessionTimeout",
    ),
    "unknown-annotation": (
        changed("my.own/key: free", "nuclio.io/kafka-fetchmin: '1'"),
        (
            ":6: metadata.annotations.nuclio.io/kafka-fetchmin: unknown annotation;"
            " the nearest known one is nuclio.io/kafka-fetch-min"
        ),
    ),
    "wrong-type": (
        attribute('fetchMin: "5"'),
        f":13: {AT}.fetchMin: '5' is not an int; expected a whole number, without quotes",
    ),
    "bad-duration": (
        attribute("sessionTimeout: 10 seconds"),
        f":13: {AT}.sessionTimeout: '10 seconds' is not a duration; expected something like 10s or 1m30s",
    ),
    "buffer-300": (
        attribute("channelBufferSize: 300"),
        f":13: {AT}.channelBufferSize: 300 is out of range; expected at most 256",
    ),
    "heartbeat-above-session": (
        attribute("heartbeatInterval: 11s"),
        f":13: {AT}.heartbeatInterval: 11s must be below sessionTimeout, 10s",
    ),
    "rebalance-below-wait": (
        attribute("rebalanceTimeout: 4s"),
        (
            f":13: {AT}.rebalanceTimeout: 4s must be above maxWaitHandlerDuringRebalance plus"
            " waitExplicitAckDuringRebalanceTimeout, 5.1s together"
        ),
    ),
    "explicit-ack-with-pool": (
        changed(
            "kind: kafka-cluster", "kind: kafka-cluster\n      maxWorkers: 2\n      explicitAckMode: enable"
        ),
        f":14: {AT}.workerAllocationMode: must be static with explicitAckMode enable",
    ),
    "unknown-kind": (
        changed("kafka-cluster", "kafka-clutser"),
        (
            ":11: spec.triggers.t.kind: 'kafka-clutser' is no trigger kind;"
            " the nearest known kind is kafka-cluster"
        ),
    ),
    "not-built": (
        attribute("groupInstanceId: a"),
        f":13: {AT}.groupInstanceId: is known, but not built into this version of Headrace yet; remove it",
    ),
    "missing-module": (
        changed("main:handler", "mian:handler"),
        ":8: spec.handler: no module 'mian' in FOLDER",
    ),
    "missing-handler": (
        changed("main:handler", "main:handle"),
        ":8: spec.handler: 'main' has no function 'handle'; it has handler",
    ),
    "tabs": (
        attribute("\tfetchMin: 1"),
        ":13: not YAML: tabs cannot indent; use spaces (column 9)",
    ),
    "bad-yaml": (
        attribute("fetchMin: 1: 2"),
        ":13: not YAML: mapping values are not allowed in this context (column 20)",
    ),
    "huge-number": (
        attribute(f"fetchMin: 0x{'f' * 10_000}"),
        f":13: {AT}.fetchMin: '0x{'f' * 57}... is not an int; expected a whole number, without quotes",
    ),
    "no-name-for-kubernetes": (
        changed("name: orders", "name: Orders_1"),
        (
            ":4: metadata.name: 'Orders_1' is no name for a function;"
            " expected small letters, digits and dashes, at most 63"
        ),
    ),
    "python's-own-module": (
        changed("main:handler", "json:handler"),
        (
            ":8: spec.handler: FOLDER/json.py has the name of a module of Python's own, which everything"
            " else that imports it expects; rename the file"
        ),
    ),
    "key-with-a-line-break": (
        attribute(r'"fetch\nMin": 1'),
        rf":13: {AT}.fetch\nMin: unknown key; the nearest known key is fetchMin",
    ),
}


def write(folder: Path, text: str, handler: str = HANDLER) -> Path:
    folder.mkdir()
    (folder / "main.py").write_text(handler)
    (folder / "json.py").write_text(handler)
    (folder / "function.yaml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
    """All mistakes, each in a function of its own, validated at once."""
    parent = tmp_path_factory.mktemp("mistakes")
    folders = [write(parent / name, change(FUNCTION)) for name, (change, _) in MISTAKES.items()]
    return parent, run("validate", *map(str, folders))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_that_explains_itself(
    mistakes: tuple[Path, "subprocess.CompletedProcess[str]"], name: str
) -> None:
    parent, result = mistakes
    file = parent / name / "function.yaml"
    expected = f"{file}{MISTAKES[name][1]}".replace("FOLDER", str(file.parent))
    assert [line for line in result.stdout.splitlines() if line.startswith(f"{file}:")] == [expected]


def test_the_mistakes_are_all_that_is_said(
    mistakes: tuple[Path, "subprocess.CompletedProcess[str]"],
) -> None:
    _, result = mistakes
    assert (result.returncode, len(result.stdout.splitlines()), result.stderr) == (2, len(MISTAKES), "")
    assert "hunter2" not in result.stdout


@pytest.mark.parametrize("name", ["unknown-attribute", "missing-module", "missing-handler", "tabs"])
def test_run_says_the_same_before_it_starts_anything(tmp_path: Path, name: str) -> None:
    change, expected = MISTAKES[name]
    folder = write(tmp_path / "f", change(FUNCTION))
    result = run("run", str(folder), "--embedded-kafka", "--replicas", "2")
    assert one_line(result, code=2).endswith(expected.replace("FOLDER", str(folder)))
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_is_not_there_or_no_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "function.yaml").write_bytes(b"\xff")
    missing = tmp_path / "missing.yaml"
    assert run("validate", str(missing), str(tmp_path)).stdout.splitlines() == [
        (
            f"{missing}: cannot be read: No such file or directory;"
            " expected a function.yaml or a folder with one"
        ),
        f"{tmp_path}/function.yaml: is not UTF-8 text",
    ]


def test_valid_and_invalid_functions_side_by_side(tmp_path: Path) -> None:
    good = write(tmp_path / "good", attribute("version: 2.8.0")(FUNCTION))
    bad = write(tmp_path / "bad", attribute("fetchMax: x")(attribute("fetchMin: x")(FUNCTION)))
    result = run("validate", str(good), str(bad))
    assert result.returncode == 2
    assert [line.partition(": ")[2] for line in result.stdout.splitlines()] == [
        "function orders is valid",
        (
            f"{good}/function.yaml:13: {AT}.version: has no effect here:"
            " the client finds out what the broker speaks"
        ),
        f"{AT}.fetchMin: 'x' is not an int; expected a whole number, without quotes",
        f"{AT}.fetchMax: 'x' is not an int; expected a whole number, without quotes",
    ]
    assert run("validate", str(good)).returncode == 0


def test_programs_get_the_same_as_json(tmp_path: Path) -> None:
    good = write(tmp_path / "good", FUNCTION)
    bad = write(tmp_path / "bad", attribute("fetchMin: x")(FUNCTION))
    result = run("validate", "--json", str(good), str(bad))
    assert result.returncode == 2
    assert json.loads(result.stdout)["functions"] == [
        {"path": str(good), "problems": [], "function": "orders", "notices": []},
        {
            "path": str(bad),
            "problems": [
                {
                    "file": f"{bad}/function.yaml",
                    "line": 13,
                    "path": f"{AT}.fetchMin",
                    "message": "'x' is not an int; expected a whole number, without quotes",
                    "via": "",
                }
            ],
        },
    ]


def test_resolved_shows_each_value_with_its_origin_and_no_secret(tmp_path: Path) -> None:
    text = FUNCTION.replace("my.own/key: free", 'nuclio.io/kafka-fetch-min: "7"')
    text = text.replace("spec:\n", "spec:\n  env: [{name: TOKEN, value: hunter2}]\n")
    folder = write(tmp_path / "f", text)
    result = run("validate", "--resolved", str(folder), "--set", "triggers.t.attributes.sessionTimeout=20s")
    assert result.returncode == 0
    assert "hunter2" not in result.stdout
    shown = {tuple(re.split(r"\s{2,}", line.strip())) for line in result.stdout.splitlines()}
    assert shown >= {
        ("spec.env.TOKEN", "(set, not shown)", "attribute, line 8"),
        ("spec.eventTimeout", "none", "default"),
        ("spec.triggers.t.numWorkers", "1", "default"),
        (f"{AT}.topics", '["orders"]', "attribute, line 14"),
        (f"{AT}.fetchMin", "7", "annotation nuclio.io/kafka-fetch-min, line 6"),
        (f"{AT}.sessionTimeout", "20s", "command line"),
        (f"{AT}.sasl.password", "(set, not shown)", "attribute, line 17"),
        (f"{AT}.caCert", '""', "default"),
        (f"{AT}.maxProcessingTime", "5m", "default"),
    }


def test_a_value_from_the_environment_says_so(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", FUNCTION.replace("spec:\n", "spec:\n  spark: {remote: 'sc://h'}\n"))
    result = subprocess.run(
        [sys.executable, "-P", "-m", "headrace", "validate", "--resolved", "--json", str(folder)],
        env=environment(SPARK_CONNECT_AUTHENTICATE_TOKEN="hunter2"),
        capture_output=True,
        text=True,
        check=True,
    )
    settings = json.loads(result.stdout)["functions"][0]["settings"]
    (token,) = (setting for setting in settings if setting["path"] == "spec.spark.token")
    assert (token["origin"], token["key"]) == ("environment", "SPARK_CONNECT_AUTHENTICATE_TOKEN")
    assert "hunter2" not in result.stdout


def test_inline_configuration_validates_and_runs(tmp_path: Path) -> None:
    block = "".join(
        f"#  {line}\n" for line in ["function.yaml:", *(f"  {row}" for row in FUNCTION.splitlines())]
    )
    file = tmp_path / "inline.py"
    file.write_text(
        "# @nuclio.configure\n" + block.replace("main:handler", "inline:handler") + "\n" + HANDLER
    )
    assert run("validate", str(file)).stdout == f"{file}: function orders is valid\n"
    result = run("run", str(file), "--set", "disable=true", "--replicas", "2")
    assert "spec.disable is true" in one_line(result, code=2)


def test_the_functions_that_come_with_headrace_are_valid() -> None:
    files = [*ROOT.glob("examples/*/function.yaml"), *ROOT.glob("functions/*/function.yaml")]
    result = run("validate", *map(str, files))
    valid = [line for line in result.stdout.splitlines() if not line.startswith("note: ")]
    assert (result.returncode, len(valid)) == (0, len(files)), result.stdout


def test_what_cannot_run_together_is_a_line_in_both_commands(tmp_path: Path) -> None:
    first, second = write(tmp_path / "first", FUNCTION), write(tmp_path / "second", FUNCTION)
    expected = (
        f"{second}/function.yaml:4: metadata.name: 'orders' is the name of {first}/function.yaml too;"
        " functions that run together need different names"
    )
    result = run("validate", str(first), str(second))
    assert result.stdout.splitlines() == [f"{first}/function.yaml: function orders is valid", expected]
    assert result.returncode == 2
    assert one_line(run("run", str(first), str(second), "--admin-port", "0"), code=2).endswith(expected)


def test_a_function_that_is_disabled_may_have_anothers_name(tmp_path: Path) -> None:
    first = write(tmp_path / "first", FUNCTION)
    second = write(tmp_path / "second", FUNCTION.replace("spec:\n", "spec:\n  disable: true\n"))
    assert run("validate", str(first), str(second)).returncode == 0


def test_a_spark_that_is_not_installed_is_a_line_in_both_commands(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", FUNCTION.replace("spec:\n", "spec:\n  spark: {}\n"))
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'pandas' else real(name, *rest)\n"
    )
    for command in (["validate"], ["run", "--admin-port", "0"]):
        result = subprocess.run(
            [*PROGRAM, *command, str(folder)],
            env=environment(PYTHONPATH=str(tmp_path / "hidden")),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        (line,) = (result.stdout + result.stderr).splitlines()
        assert result.returncode == 2
        assert line.endswith(
            f"{folder}/function.yaml:8: spec.spark: needs the extra: pip install 'headrace[spark]'"
            " (missing: pandas)"
        )


def test_mistakes_below_a_missing_or_misspelt_kind_are_said_too(tmp_path: Path) -> None:
    wrong = attribute("sessionTimout: 10s")(FUNCTION)
    missing = write(tmp_path / "missing", wrong.replace("      kind: kafka-cluster\n", ""))
    misspelt = write(tmp_path / "misspelt", wrong.replace("kafka-cluster", "kafka_cluster"))
    unknown = write(tmp_path / "unknown", wrong.replace("kafka-cluster", "nats"))
    said = run("validate", str(missing), str(misspelt), str(unknown)).stdout.splitlines()
    assert [line.partition("function.yaml:")[2].partition(": ")[0] for line in said] == [
        "10",
        "12",
        "11",
        "13",
        "11",
    ]
    assert sum("the nearest known key is sessionTimeout" in line for line in said) == 2


def test_a_set_for_a_trigger_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", FUNCTION)
    for command in ("validate", "run"):
        result = run(command, str(folder), "--set", "triggers.tt.numWorkers=4")
        (line,) = (result.stdout + result.stderr).splitlines()
        assert line.endswith(
            f"{folder}/function.yaml (--set): spec.triggers.tt: is no trigger of the file, which has t;"
            " a whole one needs its kind"
        )


def test_a_wrong_set_is_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", FUNCTION)
    for command in ("validate", "run"):
        line = one_line(run(command, str(folder), "--set", "triggers.t.numWorkers"), code=2)
        assert line.endswith("expected KEY=VALUE, such as triggers.orders.numWorkers=4")


# Every parameter that Nuclio's page on the Kafka trigger documents.
GIVEN = {
    "attributes.initialOffset": "earliest",
    "attributes.topics": ["mytopic"],
    "attributes.brokers": ["10.0.0.2:9092"],
    "attributes.consumerGroup": "my-consumer-group",
    "attributes.sasl.enable": True,
    "attributes.sasl.user": "nuclio",
    "attributes.sasl.password": "(set, not shown)",
    "attributes.sasl.handshake": True,
    "attributes.sasl.mechanism": "SCRAM-SHA-256",
    "attributes.tls.enable": True,
    "attributes.tls.insecureSkipVerify": True,
}
DEFAULTS = {
    "attributes.partitions": [],
    "attributes.sessionTimeout": "10s",
    "attributes.heartbeatInterval": "3s",
    "attributes.workerAllocationMode": "pool",
    "attributes.fetchMin": 1,
    "attributes.fetchDefault": 1048576,
    "attributes.fetchMax": 0,
    "attributes.channelBufferSize": 256,
    "attributes.maxProcessingTime": "5m",
    "attributes.rebalanceTimeout": "1m",  # 60s
    "attributes.rebalanceRetryMax": 4,
    "attributes.rebalanceRetryBackoff": "2s",
    "attributes.maxWaitHandlerDuringRebalance": "5s",
    "explicitAckMode": "disable",
}


def test_the_documented_example_is_valid_and_resolves_to_the_documented_defaults(tmp_path: Path) -> None:
    document = {
        "apiVersion": "nuclio.io/v1",
        "kind": "NuclioFunction",
        "metadata": {"name": "example"},
        "spec": {"handler": "main:handler"} | NUCLIOS_EXAMPLE,
    }
    folder = write(tmp_path / "f", yaml.safe_dump(document))
    result = run("validate", "--resolved", "--json", str(folder))
    assert result.returncode == 0
    (found,) = json.loads(result.stdout)["functions"]
    settings = {
        setting["path"].removeprefix("spec.triggers.myKafkaTrigger."): (setting["value"], setting["origin"])
        for setting in found["settings"]
    }
    assert {key: settings.get(key) for key in GIVEN} == {k: (v, "attribute") for k, v in GIVEN.items()}
    assert {key: settings.get(key) for key in DEFAULTS} == {k: (v, "default") for k, v in DEFAULTS.items()}
    assert found["notices"] == []


def test_the_documented_initial_offset_is_a_default_too(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", FUNCTION)
    assert re.search(r"initialOffset +earliest +default", run("validate", "--resolved", str(folder)).stdout)

"""`headrace validate`, as a person and a program meet it: mistakes, and what is in effect."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command import run
from function_files import NUCLIOS_EXAMPLE
from replica import environment
from root import ROOT
from validated import AT, FUNCTION, MISTAKES, attribute, write


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


def test_the_functions_that_come_with_headrace_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BOOTSTRAP_SERVER", "REQUEST_TOPIC", "ACK_TOPIC", "CONSUMER_GROUP_ID"):
        monkeypatch.setenv(f"KAFKA_{name}", "broker:9092" if name == "BOOTSTRAP_SERVER" else name.lower())
    files = [*ROOT.glob("examples/*/function.yaml"), *ROOT.glob("functions/*/function.yaml")]
    result = run("validate", *map(str, files))
    valid = [line for line in result.stdout.splitlines() if not line.startswith("note: ")]
    assert (result.returncode, len(valid)) == (0, len(files)), result.stdout


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

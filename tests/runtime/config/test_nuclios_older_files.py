"""What older Nuclio versions, its dashboard and its command line write into a function's file."""

import sys
from pathlib import Path
from typing import Any

import pytest
from function_files import load_changed, load_text, problems_of

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize("version", ["nuclio.io/v1", "nuclio.io/v1beta1"])
@pytest.mark.parametrize("kind", ["NuclioFunction", "Function"])
def test_both_versions_and_kinds_are_accepted(tmp_path: Path, version: str, kind: str) -> None:
    def change(document: dict[str, Any]) -> None:
        document |= {"apiVersion": version, "kind": kind}

    assert load_changed(tmp_path, change).notices == ()


def test_neither_is_needed(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        del document["apiVersion"], document["kind"]

    assert load_changed(tmp_path, change).notices == ()


def test_meta_is_read_as_metadata(tmp_path: Path) -> None:
    function = load_text(
        tmp_path,
        """\
            meta:
              name: orders
              annotations:
                nuclio.io/kafka-session-timeout: 20s
            spec:
              handler: main:handler
              triggers:
                t: {kind: kafka, attributes: {topics: [a], brokers: [b:9092], consumerGroup: g}}
            """,
    )
    assert (function.name, function.triggers[0].settings.session_timeout_seconds) == ("orders", 20)
    assert function.notices == (f"{tmp_path}/function.yaml:1: metadata: is written as meta, its old name",)


def test_a_mistake_below_meta_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"yaml:3: metadata\.annotations\.nuclio\.io/kafka-fech-min: unknown"):
        load_text(tmp_path, "meta:\n  annotations:\n    nuclio.io/kafka-fech-min: 1\nspec: {}\n")


def test_meta_beside_metadata_is_unknown(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["meta"] = {"name": "other"}

    assert "meta: unknown key; the nearest known key is metadata" in problems_of(tmp_path, change)


OTHERS = ["python:3.8-alpine", "python:3.6", "python:3.12-slim", "python:3.13-slim", "python:2.7"]


@pytest.mark.parametrize("runtime", [it for it in OTHERS if f":{RUNNING}" not in it])
def test_another_python_is_noticed(tmp_path: Path, runtime: str) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["runtime"] = runtime

    (notice,) = load_changed(tmp_path, change).notices
    assert notice.endswith(
        f"spec.runtime: the handler runs on Python {RUNNING}, not {runtime.partition(':')[2]}"
    )


@pytest.mark.parametrize("runtime", ["python", f"python:{RUNNING}", f"python:{RUNNING}-slim", "python:3"])
def test_a_python_like_this_one_is_not(tmp_path: Path, runtime: str) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["runtime"] = runtime

    assert load_changed(tmp_path, change).notices == ()


@pytest.mark.parametrize("runtime", ["golang", "nodejs", "shell", "python3.9", "pypy:3"])
def test_another_language_is_refused(tmp_path: Path, runtime: str) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["runtime"] = runtime

    assert "is not built in; Headrace runs Python 3 only" in problems_of(tmp_path, change)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[
            ("imageHash", "1656343"),
            ("imageHash", 1656343),
            ("httpPort", 30021),
            ("dealerURI", "nuclio:8050"),
        ],
        *[("targetCpu", 80), ("targetCPU", 75), ("avatar", "x.png"), ("runRegistry", "r:5000")],
        *[("automountServiceAccountToken", False), ("podSecurityContext", {"fsGroup": 1})],
    ],
)
def test_what_only_a_deployment_reads_is_noticed(tmp_path: Path, key: str, value: object) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"][key] = value

    (notice,) = load_changed(tmp_path, change).notices
    assert f" spec.{key}: has no effect here: " in notice


@pytest.mark.parametrize("key", ["timestamp", "outputType", "nuclioSourceDir", "nuclioSourceURL"])
def test_what_only_older_builds_read_is_known(tmp_path: Path, key: str) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["build"] = {key: "x", "commands": ["pip install a"]}

    (notice,) = load_changed(tmp_path, change).notices
    assert " spec.build: has no effect here: no image is built" in notice


def test_variables_as_the_dashboard_writes_them_are_read(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["env"] = [
            {"name": "A", "type": "value", "value": "1"},
            {"name": "B", "type": "secret", "value": None, "valueFrom": {"secretKeyRef": {"name": "s"}}},
            {"name": "C", "value": "3", "valueFrom": {}},
        ]

    function = load_changed(tmp_path, change)
    assert function.env == {"A": "1", "C": "3"}
    assert [notice.partition(": ")[2] for notice in function.notices] == [
        "spec.env[0].type: has no effect here: Nuclio's dashboard writes it",
        "spec.env[1].valueFrom: is left out: only a cluster can look it up; set it where Headrace runs",
    ]


@pytest.mark.parametrize(("key", "value"), [("numPartitions", 4), ("user", "me"), ("maxTaskAllocation", 2)])
def test_older_fields_of_a_trigger_are_known(tmp_path: Path, key: str, value: object) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["triggers"]["t"][key] = value

    (notice,) = load_changed(tmp_path, change).notices
    assert f"triggers.t.{key}: has no effect here: " in notice

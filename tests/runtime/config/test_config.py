"""A function.yaml that is read: what each part of it becomes."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from function_files import (
    KINDS,
    NUCLIOS_EXAMPLE,
    SPECS,
    load_changed,
    load_text,
    problems_of,
)

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.config.trigger_kinds import installed_kinds
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


@pytest.mark.parametrize(
    ("handler", "module"), [("main:handler", "main"), ("a.b-c:handler", "a.b-c"), ("main.py:handler", "main")]
)
def test_a_handler_is_a_module_and_a_function(tmp_path: Path, handler: str, module: str) -> None:
    function = load_changed(tmp_path, lambda d: d["spec"].update(handler=handler))
    assert (function.handler, function.handler_module) == (handler, module)
    assert function.handler_function == "handler"


def test_the_folder_names_a_function_without_metadata(tmp_path: Path) -> None:
    (folder := tmp_path / "My_orders.v2").mkdir()
    function = load_changed(folder, lambda d: d.pop("metadata"))
    assert function.name == "my-orders-v2"  # as Kubernetes takes it
    assert "the function is named my-orders-v2" in function.notices[0]


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


def test_an_alias_stands_for_the_kind(tmp_path: Path) -> None:
    function = load_changed(tmp_path, lambda d: d["spec"]["triggers"]["t"].update(kind="kafka"))
    assert function.triggers[0].kind == "kafka-cluster"


def test_a_disabled_trigger_is_left_out_whatever_its_kind(tmp_path: Path) -> None:
    disabled = {"kind": "http", "disabled": True}
    function = load_changed(tmp_path, lambda d: d["spec"]["triggers"].update(h=disabled))
    assert [trigger.name for trigger in function.triggers] == ["t"]
    assert "spec.triggers.h.disabled: the trigger is disabled" in function.notices[0]


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


def test_annotations_are_text(tmp_path: Path) -> None:
    annotation = {"annotations": {"nuclio.io/kafka-fetch-min": [5]}}
    text = problems_of(tmp_path, lambda d: d["metadata"].update(annotation))
    assert "an annotation is text, not a list or a mapping" in text


@pytest.mark.parametrize("name", ["kafka-minimal", "kafka-full", "spark-full"])
def test_the_published_examples_load_without_a_notice(tmp_path: Path, name: str) -> None:
    text = (SPECS / f"{name}.yaml").read_text()
    text = text.replace("python:3.11", f"python:{sys.version_info.major}.{sys.version_info.minor}")
    assert load_text(tmp_path, text).notices == ()

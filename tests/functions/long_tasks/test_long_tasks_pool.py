"""How many workers a pool has, and what it starts them with."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from root import ROOT

from headrace.functions.long_tasks.pool import WorkerPool
from headrace.functions.long_tasks.primes import count_primes
from headrace.functions.long_tasks.settings import KafkaSettings, load_task

SETTINGS = KafkaSettings("a:9092,b:9092", "requests", "acks", "workers")
FUNCTION = ROOT / "functions/long_tasks/function.yaml"


@pytest.fixture
def three_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)


@pytest.mark.usefixtures("three_cpus")
@pytest.mark.parametrize(("given", "used"), [(None, 3), (1, 1), (3, 3)])
def test_there_are_as_many_workers_as_cpus_or_as_was_said(
    given: int | None, used: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert WorkerPool(count_primes, SETTINGS, given).number_of_workers == used
    assert not caplog.records


@pytest.mark.usefixtures("three_cpus")
def test_more_workers_than_cpus_are_not_started_and_a_warning_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert WorkerPool(count_primes, SETTINGS, 8).number_of_workers == 3
    ((_, level, message),) = caplog.record_tuples
    assert (level, message) == (
        logging.WARNING,
        "number of cpus limit dictated 3 workers instead of 8 you provided",
    )


@pytest.mark.parametrize("given", ["2", 2.0, True, [2]])
def test_a_number_of_workers_that_is_no_int_is_a_type_error(given: Any) -> None:
    with pytest.raises(TypeError, match="expected an int"):
        WorkerPool(count_primes, SETTINGS, given)


def test_there_is_at_least_one_worker() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        WorkerPool(count_primes, SETTINGS, 0)


@pytest.mark.parametrize("task", ["count_primes", None, 7])
def test_a_task_that_cannot_be_called_is_a_type_error(task: Any) -> None:
    with pytest.raises(TypeError, match="expected a function"):
        WorkerPool(task, SETTINGS)


def test_a_task_that_workers_cannot_find_by_name_is_a_type_error() -> None:
    def local() -> None: ...

    for task in (local, lambda: None, WorkerPool.execute):
        with pytest.raises(TypeError, match="at the top level of a module"):
            WorkerPool(task, SETTINGS)


@pytest.mark.usefixtures("three_cpus")
def test_one_consumer_has_all_workers_and_unique_consumers_have_one_each() -> None:
    one = WorkerPool(count_primes, SETTINGS)
    assert one.command[-2:] == ["--set", "triggers.requests.numWorkers=3"]
    unique = WorkerPool(count_primes, SETTINGS, unique_consumers=True)
    assert unique.command == [*one.command[:-2], "--replicas", "3"]


def test_workers_get_the_settings_the_task_and_its_arguments() -> None:
    found = WorkerPool(count_primes, SETTINGS).environment(dummy="dummy", sizes=[1, 2])
    assert SETTINGS.environment().items() <= found.items()
    assert found["HEADRACE_BROKERS"] == "a:9092,b:9092"
    assert load_task(found["TASK"]) is count_primes
    assert json.loads(found["TASK_ARGUMENTS"]) == {"dummy": "dummy", "sizes": [1, 2]}
    assert Path(found["PYTHONPATH"].split(os.pathsep)[0], "headrace/functions/long_tasks").is_dir()


def test_arguments_that_are_no_json_are_a_type_error() -> None:
    with pytest.raises(TypeError):
        WorkerPool(count_primes, SETTINGS).environment(lock=object())


def test_the_last_delivery_of_function_yaml_is_the_one_that_answers() -> None:
    spec = yaml.safe_load(FUNCTION.read_text())["spec"]
    (attempts,) = [int(entry["value"]) for entry in spec["env"] if entry["name"] == "TASK_ATTEMPTS"]
    assert spec["triggers"]["requests"]["attributes"]["onFailure"]["maxAttempts"] == attempts + 1

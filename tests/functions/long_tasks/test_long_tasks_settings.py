"""The four variables, and what spec.env says of the task."""

from dataclasses import FrozenInstanceError

import pytest

from headrace.functions.long_tasks.primes import count_primes
from headrace.functions.long_tasks.settings import (
    KafkaSettings,
    SettingsError,
    load_task,
    read_settings,
    read_task_settings,
)

GIVEN = {
    "KAFKA_BOOTSTRAP_SERVER": "127.0.0.1:9092",
    "KAFKA_REQUEST_TOPIC": "requests",
    "KAFKA_ACK_TOPIC": "acks",
    "KAFKA_CONSUMER_GROUP_ID": "workers",
}
READ = KafkaSettings("127.0.0.1:9092", "requests", "acks", "workers")
TASK = {"TASK": "headrace.functions.long_tasks.primes:count_primes", "TASK_ATTEMPTS": "3", **GIVEN}


@pytest.mark.parametrize("change", [str, str.lower, str.title])
def test_the_names_of_the_variables_count_in_any_case(change: type[str]) -> None:
    assert read_settings({change(name): value for name, value in GIVEN.items()}) == READ


def test_a_prefix_stands_before_all_of_them() -> None:
    engine = {f"ENGINE_{name}": value for name, value in GIVEN.items()}
    assert read_settings(engine, "ENGINE_") == READ
    assert read_settings(engine, "engine_") == READ
    with pytest.raises(SettingsError):
        read_settings(GIVEN, "ENGINE_")


def test_all_that_is_missing_is_named_in_one_line() -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({**GIVEN, "KAFKA_ACK_TOPIC": " ", "KAFKA_REQUEST_TOPIC": ""}, "")
    assert str(refused.value) == (
        "KAFKA_REQUEST_TOPIC, KAFKA_ACK_TOPIC are not set in the environment, and there is no default"
    )
    with pytest.raises(SettingsError, match=r"^ENGINE_KAFKA_BOOTSTRAP_SERVER, ENGINE_KAFKA_REQ"):
        read_settings({}, "ENGINE_")


def test_settings_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        READ.kafka_ack_topic = "others"  # type: ignore[misc]  # what is tested


def test_they_are_what_function_yaml_asks_for() -> None:
    assert READ.environment() == GIVEN


def test_a_task_is_found_by_its_name() -> None:
    found = read_task_settings({**TASK, "TASK_ARGUMENTS": '{"dummy": "dummy"}'})
    assert (found.task, found.arguments, found.attempts) == (count_primes, {"dummy": "dummy"}, 3)
    assert read_task_settings(TASK).arguments == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TASK", "count_primes"),
        ("TASK", "no_such_module:task"),
        ("TASK", "headrace.functions.long_tasks.primes:no_such_task"),
        ("TASK_ARGUMENTS", "dummy=dummy"),
        ("TASK_ARGUMENTS", "[1]"),
        ("TASK_ATTEMPTS", "0"),
        ("TASK_ATTEMPTS", "three"),
    ],
)
def test_a_mistake_is_named_before_the_first_request(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name} ") as refused:
        read_task_settings({**TASK, name: value})
    assert "\n" not in str(refused.value)


def test_what_cannot_be_called_is_no_task() -> None:
    with pytest.raises(TypeError, match="can't be called"):
        load_task("headrace.functions.long_tasks.primes:_STEP")

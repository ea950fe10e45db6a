"""Settings of long_tasks: four required variables for Kafka, and the task with its arguments and attempts."""

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from headrace.functions.long_tasks.checkpoints import Progress
from headrace.functions.long_tasks.communication_pb2 import Request


class SettingsError(Exception):
    """The environment is wrong; the message says how, in one line."""


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The four variables, each field named as its variable in lower case."""

    kafka_bootstrap_server: str
    """HOST:PORT, or several with commas between them."""
    kafka_request_topic: str
    kafka_ack_topic: str
    kafka_consumer_group_id: str

    def environment(self) -> dict[str, str]:
        """Return the variables as function.yaml names them: in upper case, without a prefix."""
        return {name.upper(): getattr(self, name) for name in _NAMES}


_NAMES = tuple(field.name for field in fields(KafkaSettings))


def read_settings(environment: Mapping[str, str], prefix: str = "") -> KafkaSettings:
    """Read the four variables, each `prefix` + name in any case.

    Raises SettingsError, which names all variables that are missing.
    """
    # KAFKA_ACK_TOPIC and kafka_ack_topic are the same variable.
    values = {name.lower(): value.strip() for name, value in environment.items()}
    found = {name: values.get(f"{prefix}{name}".lower(), "") for name in _NAMES}
    missing = [f"{prefix}{name}".upper() for name in _NAMES if not found[name]]
    if missing:
        be = "is" if len(missing) == 1 else "are"
        raise SettingsError(f"{', '.join(missing)} {be} not set in the environment, and there is no default")
    return KafkaSettings(**found)


class Task(Protocol):
    """A function that processes a request. It may block for hours; an exception is a failed attempt."""

    def __call__(
        self, request: Request, progress: Progress, *, worker_number: int, **arguments: Any
    ) -> object:
        """Process `request`. `arguments` are those of `WorkerPool.execute`; the result is ignored."""
        ...


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """The task of a worker, from `spec.env` of function.yaml."""

    task: Task
    arguments: Mapping[str, Any]
    attempts: int
    """How often the task runs for a request before that is answered with isprocessed = false."""
    ack_topic: str


def read_task_settings(environment: Mapping[str, str]) -> TaskSettings:
    """Read the task's settings. Raises SettingsError, and TypeError if TASK can't be called."""
    return TaskSettings(
        load_task(environment["TASK"]),
        _arguments(environment.get("TASK_ARGUMENTS", "")),
        _attempts(environment["TASK_ATTEMPTS"]),
        environment["KAFKA_ACK_TOPIC"],
    )


def load_task(name: str) -> Task:
    """Import the task that `name`, `module:function`, names. Raises SettingsError, TypeError."""
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise SettingsError(f"TASK is {name!r}; expected module:function")
    try:
        found: Task = getattr(importlib.import_module(module), function)
    # An ImportError may also come from the task's own imports, so its message is passed on.
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"TASK is {name!r}, which can't be loaded: {error}") from error
    if not callable(found):
        raise TypeError(f"TASK is {name!r}, which can't be called")
    return found


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        # Empty where function.yaml is run by itself, without WorkerPool.
        found = json.loads(text or "{}")
    except ValueError as error:
        raise SettingsError(f"TASK_ARGUMENTS is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise SettingsError("TASK_ARGUMENTS has to be a JSON object: the task's arguments by name")
    return found


def _attempts(text: str) -> int:
    # isdecimal alone accepts digits of other scripts.
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise SettingsError(f"TASK_ATTEMPTS is {text!r}; expected a number from 1")
    return int(text)

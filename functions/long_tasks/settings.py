"""Where requests come from and where responses go: the four variables, all of them required."""

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from headrace.functions.long_tasks.checkpoints import Progress
from headrace.functions.long_tasks.communication_pb2 import Request


class SettingsError(Exception):
    """What is wrong with the environment, in one line."""


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Named as the variables are, in lower case."""

    kafka_bootstrap_server: str
    """host:port, or several with commas."""
    kafka_request_topic: str
    kafka_ack_topic: str
    kafka_consumer_group_id: str

    def environment(self) -> dict[str, str]:
        """The variables as function.yaml has them: without prefix, in upper case."""
        return {name.upper(): getattr(self, name) for name in _NAMES}


_NAMES = tuple(field.name for field in fields(KafkaSettings))


def read_settings(environment: Mapping[str, str], prefix: str = "") -> KafkaSettings:
    """Names count in any case, behind `prefix`. Raises SettingsError, which names all that is missing."""
    given = {name.lower(): value.strip() for name, value in environment.items()}
    found = {name: given.get(f"{prefix}{name}".lower(), "") for name in _NAMES}
    missing = [f"{prefix}{name}".upper() for name in _NAMES if not found[name]]
    if missing:
        be = "is" if len(missing) == 1 else "are"
        raise SettingsError(f"{', '.join(missing)} {be} not set in the environment, and there is no default")
    return KafkaSettings(**found)


class Task(Protocol):
    """What answers a request. Blocks for as long as it takes; what it raises is a failed attempt."""

    def __call__(
        self, request: Request, progress: Progress, *, worker_number: int, **arguments: Any
    ) -> object:
        """`arguments`: what `WorkerPool.execute` was given."""
        ...


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """What `spec.env` says of the task."""

    task: Task
    arguments: Mapping[str, Any]
    attempts: int
    """How often it runs for one request before that is answered with isprocessed = false."""
    ack_topic: str


def read_task_settings(environment: Mapping[str, str]) -> TaskSettings:
    """Raises SettingsError; TypeError where what TASK names can't be called."""
    return TaskSettings(
        load_task(environment["TASK"]),
        _arguments(environment.get("TASK_ARGUMENTS", "")),
        _attempts(environment["TASK_ATTEMPTS"]),
        environment["KAFKA_ACK_TOPIC"],
    )


def load_task(name: str) -> Task:
    """`module:function`. Raises SettingsError, TypeError."""
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise SettingsError(f"TASK is {name!r}; expected module:function")
    try:
        found: Task = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"TASK is {name!r}, which can't be loaded: {error}") from error
    if not callable(found):
        raise TypeError(f"TASK is {name!r}, which can't be called")
    return found


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise SettingsError(f"TASK_ARGUMENTS is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise SettingsError("TASK_ARGUMENTS has to be a JSON object: the task's arguments by name")
    return found


def _attempts(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise SettingsError(f"TASK_ATTEMPTS is {text!r}; expected a number from 1")
    return int(text)

"""Worker processes for one task. They are those of `headrace run`: here is said what runs, and how many."""

import inspect
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from headrace.functions.long_tasks.settings import KafkaSettings

logger = logging.getLogger(__name__)

_FUNCTION = Path(__file__).with_name("function.yaml")
_WORKERS = "triggers.requests.numWorkers"


class WorkerPool:
    """For one task, which workers find by its name: a function at the top level of a module."""

    def __init__(
        self,
        task: Callable[..., object],
        settings: KafkaSettings,
        number_of_workers: int | None = None,
        *,
        unique_consumers: bool = False,
    ) -> None:
        """`number_of_workers`: as many as there are CPUs, at most and by default.

        With `unique_consumers` each of them is a member of the group; else one is, and its partitions go to
        whoever is free. Raises TypeError, ValueError.
        """
        self._name, self._folder = _place_of(task)
        self._settings = settings
        self._unique_consumers = unique_consumers
        self.number_of_workers = _capped(number_of_workers)

    @property
    def command(self) -> list[str]:
        """What runs them, in `environment(...)`."""
        number = str(self.number_of_workers)
        workers = ["--replicas", number] if self._unique_consumers else ["--set", f"{_WORKERS}={number}"]
        return [sys.executable, "-P", "-m", "headrace", "run", str(_FUNCTION), *workers]

    def environment(self, **arguments: object) -> dict[str, str]:
        """This process's, with all that function.yaml asks for. Raises TypeError for what is no JSON."""
        settings = self._settings.environment()
        folders = [str(self._folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **os.environ,
            **settings,
            "HEADRACE_BROKERS": self._settings.kafka_bootstrap_server,  # the file takes a single one
            "TASK": self._name,
            "TASK_ARGUMENTS": json.dumps(arguments),
            "PYTHONPATH": os.pathsep.join(folders),
        }

    def execute(self, *options: str, **arguments: object) -> NoReturn:
        """Become `headrace run`, with more of its `options`, until Ctrl-C. `arguments` reach each task.

        Raises TypeError for arguments that are no JSON.
        """
        command = [*self.command, *options]
        environment = self.environment(**arguments)
        logger.info("%d workers, of %s", self.number_of_workers, self._name)
        os.execve(command[0], command, environment)  # noqa: S606  # no shell is wanted


def _capped(number_of_workers: int | None) -> int:
    cpus = os.cpu_count() or 1
    if number_of_workers is None:
        return cpus
    if not isinstance(number_of_workers, int) or isinstance(number_of_workers, bool):
        raise TypeError(f"number_of_workers is {number_of_workers!r}; expected an int")
    if number_of_workers < 1:
        raise ValueError(f"number_of_workers is {number_of_workers}; expected 1 or more")
    if number_of_workers > cpus:
        logger.warning(
            "number of cpus limit dictated %d workers instead of %d you provided", cpus, number_of_workers
        )
    return min(number_of_workers, cpus)


def _place_of(task: Callable[..., object]) -> tuple[str, Path]:
    """`module:function`, and the folder in which the module is found. Raises TypeError."""
    if not callable(task):
        raise TypeError(f"the task is {task!r}; expected a function")
    name = getattr(task, "__qualname__", "")
    module = inspect.getmodule(task)
    if module is None or getattr(module, name, None) is not task:
        raise TypeError(f"the task is {task!r}; expected a function at the top level of a module")
    module_name, path = _name_of(module), Path(inspect.getfile(task)).absolute()
    depth = module_name.count(".") + (path.name == "__init__.py")
    return f"{module_name}:{name}", path.parents[depth]


def _name_of(module: ModuleType) -> str:
    """Of a script too, whose own is `__main__`: workers import it."""
    if module.__name__ != "__main__":
        return module.__name__
    return module.__spec__.name if module.__spec__ else Path(str(module.__file__)).stem

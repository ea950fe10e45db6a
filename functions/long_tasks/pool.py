"""Pool of worker processes for one task: the command and the environment of its `headrace run`."""

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
    """Worker processes for one task, which they import by name: a top-level function of a module."""

    def __init__(
        self,
        task: Callable[..., object],
        settings: KafkaSettings,
        number_of_workers: int | None = None,
        *,
        unique_consumers: bool = False,
    ) -> None:
        """`number_of_workers` is by default, and at most, the number of CPUs.

        With `unique_consumers` each worker is a member of the consumer group, with partitions of its own;
        without, the pool is one member and hands each request to the next free worker. Raises TypeError and
        ValueError.
        """
        self._name, self._folder = _import_name_and_folder(task)
        self._settings = settings
        self._unique_consumers = unique_consumers
        self.number_of_workers = _limited_to_cpus(number_of_workers)

    @property
    def command(self) -> list[str]:
        """The command that runs the pool, in `environment(...)`."""
        number = str(self.number_of_workers)
        workers = ["--replicas", number] if self._unique_consumers else ["--set", f"{_WORKERS}={number}"]
        return [sys.executable, "-P", "-m", "headrace", "run", str(_FUNCTION), *workers]

    def environment(self, **arguments: object) -> dict[str, str]:
        """Return this process's environment with the variables that function.yaml reads.

        `arguments` are passed to the task with each request. Raises TypeError if they are no JSON.
        """
        settings = self._settings.environment()
        # First, so that workers import the task's module from where this process has found it.
        folders = [str(self._folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **os.environ,
            **settings,
            "HEADRACE_BROKERS": self._settings.kafka_bootstrap_server,  # function.yaml has a single broker
            "TASK": self._name,
            "TASK_ARGUMENTS": json.dumps(arguments),
            "PYTHONPATH": os.pathsep.join(folders),
        }

    def execute(self, *options: str, **arguments: object) -> NoReturn:
        """Replace this process by `headrace run`, which runs until Ctrl-C. Never returns.

        `options` are added to its command line; `arguments` are passed to the task with each request. Raises
        TypeError if they can't be written as JSON.
        """
        command = [*self.command, *options]
        environment = self.environment(**arguments)
        logger.info("%d workers, of %s", self.number_of_workers, self._name)
        # Replaced, not started: signals and the exit code are those of `headrace run`.
        os.execve(command[0], command, environment)  # noqa: S606  # no shell is wanted


def _limited_to_cpus(number_of_workers: int | None) -> int:
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


def _import_name_and_folder(task: Callable[..., object]) -> tuple[str, Path]:
    """Return the task's name, `module:function`, and the folder that its module is imported from.

    Raises TypeError for anything but a function at the top level of a module.
    """
    if not callable(task):
        raise TypeError(f"the task is {task!r}; expected a function")
    name = getattr(task, "__qualname__", "")
    module = inspect.getmodule(task)
    if module is None or getattr(module, name, None) is not task:
        raise TypeError(f"the task is {task!r}; expected a function at the top level of a module")
    module_name, path = _module_name(module), Path(inspect.getfile(task)).absolute()
    # One folder up for each dot of the name, and one more for a package, whose file is its __init__.py.
    depth = module_name.count(".") + (path.name == "__init__.py")
    return f"{module_name}:{name}", path.parents[depth]


def _module_name(module: ModuleType) -> str:
    """Return the name under which workers import `module`, also for a script, which is `__main__` here."""
    if module.__name__ != "__main__":
        return module.__name__
    return module.__spec__.name if module.__spec__ else Path(str(module.__file__)).stem

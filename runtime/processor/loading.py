"""Loading of a command line's functions, with all that `run` refuses and `validate` reports."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.function_reader import load_function
from headrace.runtime.config.trigger import CommandSettings
from headrace.runtime.embedded.spark.installed import spark_fault, spark_notice
from headrace.runtime.embedded.spark.sharing import functions_with_own_spark
from headrace.runtime.errors import ConfigError, Problem
from headrace.runtime.settings.overrides import Override


@dataclass(frozen=True, slots=True)
class LoadedFunction:
    """Result of loading one PATH: a function, or problems."""

    path: Path
    function: FunctionSpec | None = None
    problems: tuple[Problem, ...] = ()


def load_functions(
    paths: Sequence[Path], overrides: tuple[Override, ...], command: CommandSettings
) -> list[LoadedFunction]:
    """Load each function, then check them beside each other: those of a command line run together."""
    loaded = [_loaded(path, overrides, command) for path in paths]
    enabled = [it.function for it in loaded if it.function is not None and not it.function.disabled]
    problems = list(_problems_of(enabled))  # disabled functions are in nobody's way
    return [_with_notice(_with_problems(it, problems)) for it in loaded]


def _loaded(path: Path, overrides: tuple[Override, ...], command: CommandSettings) -> LoadedFunction:
    try:
        return LoadedFunction(
            path, load_function(path, overrides=overrides, with_handler=True, command=command)
        )
    except ConfigError as error:
        return LoadedFunction(path, problems=error.problems)


def _with_problems(loaded: LoadedFunction, problems: Sequence[Problem]) -> LoadedFunction:
    function = loaded.function
    own = tuple(problem for problem in problems if function and problem.file == str(function.path))
    return replace(loaded, function=None, problems=own) if own else loaded


def _with_notice(loaded: LoadedFunction) -> LoadedFunction:
    """Add the notice of versions that are newer than all that was tested, where there is one."""
    function = loaded.function
    if function is None or function.spark is None or not (notice := spark_notice()):
        return loaded
    line = str(function.problem(("spec", "spark"), notice))
    return replace(loaded, function=replace(function, notices=(*function.notices, line)))


def _problems_of(functions: Sequence[FunctionSpec]) -> Iterator[Problem]:
    """Yield the problems that functions have beside each other; each of them is valid by itself."""
    by_name: dict[str, FunctionSpec] = {}
    for function in functions:
        first = by_name.setdefault(function.name, function)
        if first is not function:
            yield function.problem(
                ("metadata", "name"),
                f"{function.name!r} is the name of {first.path} too; "
                "functions that run together need different names",
            )
    with_spark = [function for function in functions if function.spark is not None]
    if with_spark and (fault := spark_fault()):
        yield from (function.problem(("spec", "spark"), fault) for function in with_spark)
    try:
        functions_with_own_spark(functions)  # functions that share a Spark server have to agree about it
    except ConfigError as error:
        yield from error.problems

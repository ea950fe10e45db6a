"""The functions of a command line: all that `run` refuses in them before it starts, `validate` reports."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.runtime.config.function import FunctionSpec, load_function
from headrace.runtime.config.trigger import CommandSettings
from headrace.runtime.embedded.spark.installed import spark_fault
from headrace.runtime.embedded.spark.sharing import sharing
from headrace.runtime.errors import ConfigError, Problem
from headrace.runtime.settings.overrides import Override


@dataclass(frozen=True, slots=True)
class LoadedFunction:
    """What was found out about one PATH: a function, or problems."""

    path: Path
    function: FunctionSpec | None = None
    problems: tuple[Problem, ...] = ()


def load_functions(
    paths: Sequence[Path], overrides: tuple[Override, ...], beside: CommandSettings
) -> list[LoadedFunction]:
    """Each by itself, then beside the others: those of one command line run together."""
    loaded = [_loaded(path, overrides, beside) for path in paths]
    enabled = [it.function for it in loaded if it.function is not None and not it.function.disabled]
    problems = list(_problems_of(enabled))
    return [_with_problems(it, problems) for it in loaded]


def _loaded(path: Path, overrides: tuple[Override, ...], beside: CommandSettings) -> LoadedFunction:
    try:
        return LoadedFunction(
            path, load_function(path, overrides=overrides, with_handler=True, beside=beside)
        )
    except ConfigError as error:
        return LoadedFunction(path, problems=error.problems)


def _with_problems(loaded: LoadedFunction, problems: Sequence[Problem]) -> LoadedFunction:
    function = loaded.function
    own = tuple(problem for problem in problems if function and problem.file == str(function.path))
    return replace(loaded, function=None, problems=own) if own else loaded


def _problems_of(functions: Sequence[FunctionSpec]) -> Iterator[Problem]:
    """Of functions that are enabled and valid, each by itself."""
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
        sharing(functions)
    except ConfigError as error:
        yield from error.problems

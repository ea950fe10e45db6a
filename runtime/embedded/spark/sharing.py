"""The Spark Connect server that functions share: what they ask of it together, and where they disagree."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.spark import SparkSpec
from headrace.runtime.errors import ConfigError, Problem

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SharedSpark:
    """The server that functions share. `name` names them all, `folders` are theirs, `env` they agree on."""

    name: str
    spec: SparkSpec
    folders: tuple[Path, ...]
    env: Mapping[str, str] = field(repr=False)


def functions_with_own_spark(functions: Sequence[FunctionSpec]) -> list[FunctionSpec]:
    """Return the functions whose Spark server we start. ConfigError where they want different ones."""
    found = [function for function in functions if function.spark and not function.spark.remote]
    specs = [(function, function.spark or SparkSpec()) for function in found]
    if found and (problems := [*_different_masters(specs), *_different_conf(specs)]):
        raise ConfigError(problems)
    return found


def share_spark(functions: Sequence[FunctionSpec]) -> SharedSpark:
    """Return the server of functions with a spec.spark without remote. ConfigError where they disagree."""
    functions = functions_with_own_spark(functions)
    specs = [(function, function.spark or SparkSpec()) for function in functions]
    return SharedSpark(
        name=", ".join(function.name for function in functions),
        spec=SparkSpec(
            master=specs[0][1].master,
            # Two that give the same key give the same value: anything else was refused before.
            conf={key: value for _, spec in specs for key, value in spec.conf.items()},
            packages=tuple(dict.fromkeys(package for _, spec in specs for package in spec.packages)),
        ),
        folders=tuple(dict.fromkeys(function.folder for function in functions)),
        env=_agreed_env(functions),
    )


def _different_masters(specs: Sequence[tuple[FunctionSpec, SparkSpec]]) -> Iterator[Problem]:
    (first, expected), *others = specs
    for function, spec in others:
        if spec.master != expected.master:
            yield _problem(
                function, "master", f"is {spec.master}, and {expected.master} for {first.name} ({first.path})"
            )


def _different_conf(specs: Sequence[tuple[FunctionSpec, SparkSpec]]) -> Iterator[Problem]:
    """Yield where functions give different values of a key. Values may be secrets: none is shown."""
    firsts: dict[str, tuple[FunctionSpec, str]] = {}
    for function, spec in specs:
        for key, value in spec.conf.items():
            first, expected = firsts.setdefault(key, (function, value))
            if value != expected:
                yield _problem(
                    function, f"conf.{key}", f"has another value than for {first.name} ({first.path})"
                )


def _problem(function: FunctionSpec, key: str, message: str) -> Problem:
    remedy = "functions that run together share one Spark server; run one of them by itself"
    return Problem(str(function.path), 0, f"spec.spark.{key}", f"{message}; {remedy}")


def _agreed_env(functions: Sequence[FunctionSpec]) -> dict[str, str]:
    agreed: dict[str, str] = {}
    disputed = set()
    # The server has one environment: where functions disagree, none of them gets its value by chance.
    for function in functions:
        # Of a function that says nothing of it, workers are in UTC: another zone would be disputed too.
        for name, value in {"TZ": "UTC", **function.env}.items():
            if agreed.setdefault(name, value) != value:
                disputed.add(name)
    if disputed:
        names = ", ".join(sorted(disputed))
        logger.warning(
            "what Spark starts of Python doesn't get %s: the functions give different values", names
        )
    own = {name for function in functions for name in function.env}
    return {name: value for name, value in agreed.items() if name in own - disputed}

"""`headrace validate`: all mistakes in functions, and the settings in effect, without running them."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from headrace.runtime.errors import ConfigError, printable
from headrace.runtime.processor.loading import LoadedFunction, load_functions
from headrace.runtime.processor.option_fields import parameter
from headrace.runtime.processor.options import RunOptions, command_settings
from headrace.runtime.settings.findings import ResolvedSetting
from headrace.runtime.settings.overrides import parse_overrides

_WIDEST_VALUE = 30


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@parameter(RunOptions, "brokers")
@parameter(RunOptions, "set_texts")
@click.option("--embedded-kafka", is_flag=True, help="For a run with it, where no trigger needs brokers.")
@parameter(RunOptions, "v3io")
@click.option("--embedded-v3io", is_flag=True, help="The same of the web API of v3io triggers.")
@parameter(RunOptions, "only_kafka")
@click.option(
    "--check-spark",
    "is_spark_asked",
    is_flag=True,
    help="Ask the server of spec.spark.remote whether handlers can use it: Spark's version, and Python's.",
)
@click.option("--resolved", is_flag=True, help="Print every setting in effect, and where it comes from.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def validate(
    paths: tuple[Path, ...], *, resolved: bool, as_json: bool, is_spark_asked: bool, **given: Any
) -> None:
    """Check the functions in PATH..., each a function.yaml, its folder, or a handler's file with one inline.

    Several are checked as functions that run together. Every problem is a line. Nothing runs, and no secret
    is shown. Exit codes: 0 all are valid, 2 some aren't.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "true")  # to look for some reads what each package says
    overrides = parse_overrides(given["set_texts"], paths)
    command = command_settings(click.get_current_context())
    reports = load_functions(paths, overrides, command)
    checked = [(report, "") for report in reports]
    if is_spark_asked:
        from headrace.runtime.cli.spark_check import check_spark  # it brings asyncio

        checked = list(map(check_spark, reports))
    if as_json:
        found = [_as_json(report, spark, resolved=resolved) for report, spark in checked]
        click.echo(json.dumps({"functions": found}, indent=2))
    else:
        for line in (line for it in checked for line in _as_text(*it, resolved=resolved)):
            click.echo(line)
    # The problems are printed already: no exception, which would print them once more.
    sys.exit(ConfigError.exit_code if any(report.problems for report, _ in checked) else 0)


def _as_json(loaded: LoadedFunction, spark: str, *, resolved: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"path": str(loaded.path), "problems": list(map(asdict, loaded.problems))}
    if loaded.function is not None:
        found |= {"function": loaded.function.name, "notices": loaded.function.notices}
        found |= {"settings": list(map(asdict, loaded.function.settings))} if resolved else {}
    return found | ({"spark": spark} if spark else {})


def _as_text(loaded: LoadedFunction, spark: str, *, resolved: bool) -> Iterator[str]:
    yield from (printable(str(problem)) for problem in loaded.problems)
    if loaded.function is not None:
        yield f"{loaded.function.path}: function {loaded.function.name} is valid"
        yield from (f"note: {printable(notice)}" for notice in loaded.function.notices)
    if spark:
        yield f"{loaded.path}: spec.spark: {printable(spark)}"
    if loaded.function is not None:
        yield from _table(loaded.function.settings) if resolved else ()


def _table(settings: Iterable[ResolvedSetting]) -> Iterator[str]:
    # A long value pushes its own row only: the others stay aligned.
    rows = [(setting.path, _value(setting.value), _origin(setting)) for setting in settings]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for path, value, origin in rows:
        yield f"  {path:{widths[0]}}  {value:{min(widths[1], _WIDEST_VALUE)}}  {origin}"


def _value(value: object) -> str:
    if isinstance(value, str) and value and value.isprintable():
        return value
    return "none" if value is None else json.dumps(value)


def _origin(setting: ResolvedSetting) -> str:
    key = f" {setting.key}" if setting.key else ""
    return f"{setting.origin}{key}, line {setting.line}" if setting.line else f"{setting.origin}{key}"

"""`headrace try`: the command."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from headrace.runtime.cli.records.options import as_json_option
from headrace.runtime.cli.try_record.outcome import as_json_text, as_lines, log_line
from headrace.runtime.cli.try_record.record import RecordCoordinates, RecordParam, record_at, record_in_file
from headrace.runtime.config.delivery_policy import DeliveryPolicy, FailurePolicy
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.trigger import CommandSettings, TriggerSpec
from headrace.runtime.errors import ConfigError, HandlerLoadError, UsageError
from headrace.runtime.processes import PASSED_ON, picked
from headrace.runtime.processor.loading import load_functions
from headrace.runtime.processor.option_fields import parameter
from headrace.runtime.processor.options import RunOptions, command_settings_for_one_record
from headrace.runtime.processor.worker_start import policy_of, worker_start
from headrace.runtime.settings.overrides import Override, parse_overrides
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.testing.results import LogLine, Range, Record, TrialResult
from headrace.runtime.testing.spark import serving
from headrace.runtime.testing.trial import Trial, kept_logs
from headrace.runtime.worker.handler import HandlerNotLoadedError, load_handler

_BACKGROUND_SECONDS = 5.0
_FAILED = 5


@click.command(name="try")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--record", metavar="FILE", help="One record as `kafka consume --json` prints it; - is stdin.")
@click.option(
    "--from",
    "place",
    type=RecordParam(),
    metavar="TOPIC/PARTITION/OFFSET",
    help="One record of Kafka, read with the trigger's brokers and sign-in.",
)
@click.option(
    "--trigger", metavar="NAME", help="Whose settings apply. If not given: the first that reads records."
)
@parameter(RunOptions, "brokers")
@parameter(RunOptions, "set_texts")
@parameter(RunOptions, "pass_env")
@as_json_option
def try_(  # noqa: PLR0913  # one for each option
    path: Path,
    *,
    record: str | None,
    place: RecordCoordinates | None,
    trigger: str | None,
    brokers: Sequence[str],
    set_texts: tuple[str, ...],
    pass_env: tuple[str, ...],
    as_json: bool,
) -> None:
    """Call the handler of the function in PATH with one record, in this process, and show what comes of it.

    Its logs, what it has produced, whether it is acked, its traceback, and how long it took. Nothing is
    committed, and nothing is sent to a broker. No function has to run: `headrace invoke` calls one that does,
    over its http trigger.

    \b
    Exit codes: 0 it went well, 5 the handler failed, 2 a mistake in the command or the function,
    3 the broker doesn't answer.
    """
    if (record is None) == (place is None):
        raise UsageError("say which record: --record FILE, or --from TOPIC/PARTITION/OFFSET")
    command = command_settings_for_one_record(brokers, reads_kafka=place is not None)
    subject = _subject(path, trigger, parse_overrides(set_texts, (path,)), command)
    tried = _record(record, place, subject)
    show = (lambda _: None) if as_json else (lambda line: click.echo(log_line(line)))
    with redirect_stdout(sys.stderr) if as_json else nullcontext():  # stdout is for JSON, not for prints
        result = _run_trial(subject, tried, pass_env, show)
    click.echo(as_json_text(result) if as_json else "\n".join(as_lines(result)))
    if result.failures:
        sys.exit(_FAILED)


@dataclass(frozen=True, slots=True)
class _Subject:
    """The function and the trigger that the record is tried on."""

    function: FunctionSpec
    trigger: TriggerSpec
    policy: DeliveryPolicy


def _subject(
    path: Path, trigger: str | None, overrides: tuple[Override, ...], command: CommandSettings
) -> _Subject:
    """Load the function and choose its trigger. Raises ConfigError, UsageError."""
    (loaded,) = load_functions([path], overrides, command)
    if loaded.function is None:
        raise ConfigError(loaded.problems)
    streams = {it.name: it for it in loaded.function.triggers if it.is_stream}
    if not streams:
        raise UsageError(
            f"{loaded.path}: no trigger reads records; `headrace invoke` calls a running function"
        )
    name = next(iter(streams)) if trigger is None else trigger
    if name not in streams:
        raise UsageError(f"--trigger {name!r}: those that read records are {', '.join(streams)}")
    return _Subject(loaded.function, streams[name], policy_of(loaded.function, streams[name]))


def _record(file: str | None, place: RecordCoordinates | None, subject: _Subject) -> Record | Range:
    """Return the record, or the range with it. Raises HeadraceError."""
    if place is not None:
        return record_at(place, subject.trigger, is_range=subject.policy.is_ranges)
    if subject.policy.is_ranges:
        raise UsageError("with delivery: ranges Spark reads the record: give --from TOPIC/PARTITION/OFFSET")
    return record_in_file(file or "")


def _run_trial(
    subject: _Subject, tried: Record | Range, pass_env: Sequence[str], show: Callable[[LogLine], None]
) -> TrialResult:
    """Call the handler with the record, in this process. Raises HandlerLoadError."""
    function, logs = subject.function, list[LogLine]()

    def keep(line: LogLine) -> None:
        logs.append(line)
        show(line)

    # Spark first: as in a run its server has the zone of this machine, not that of a worker.
    with _spark(function) as spark, _environment(function, pass_env), _code(function) as folder:
        start = worker_start(function, subject.trigger, subject.policy, spark)
        # The record is decoded already, alone, and nobody waits for an answer.
        start = replace(start, decoder="", decoder_options={}, max_concurrency=1, takes_acks=True)
        trial = Trial([tried], _once(subject.policy), start)
        load = partial(load_handler, folder, function.handler_module, function.handler_function)
        try:
            with kept_logs(keep, start.log_level):
                trial.run(load, _without_others, _BACKGROUND_SECONDS)
        except HandlerNotLoadedError as error:
            # The error of a worker knows nothing of function.yaml, where the mistake may be.
            handler = f"{function.path}: spec.handler {function.handler}"
            raise HandlerLoadError(f"{handler}: {error}") from None
    return trial.result(logs)


def _once(policy: DeliveryPolicy) -> DeliveryPolicy:
    # The first failure is what the user wants to see; a retry would hide it.
    return replace(policy, failure=FailurePolicy(max_attempts=1))


def _without_others(context: Any) -> None:
    def refuse(name: str, *_: Any) -> Any:
        raise RuntimeError(f"call_function({name!r}): no other function runs under `headrace try`")

    context.platform.calls = refuse  # in the place of the worker's way to other functions


@contextmanager
def _environment(function: FunctionSpec, pass_env: Sequence[str]) -> Iterator[None]:
    """Give this process the environment of a worker while the context lasts."""
    before = dict(os.environ)
    worker_environment = {
        **picked(before, PASSED_ON),
        **function.with_env(picked(before, pass_env)).worker_env,
    }
    try:
        # A handler may read any variable: it finds those of a worker, and no others.
        os.environ.clear()
        os.environ.update(worker_environment)
        time.tzset()
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        time.tzset()


@contextmanager
def _spark(function: FunctionSpec) -> Iterator[SparkLink | None]:
    """Yield a link to the function's Spark server: its remote one, or one of our own."""
    spec = function.spark
    if spec is None:
        yield None
    elif spec.remote:
        yield SparkLink(spec.remote, spec.token, spec.conf)
    else:
        with serving(function) as link:
            yield link


@contextmanager
def _code(function: FunctionSpec) -> Iterator[Path]:
    """Yield the folder that its module is in, written out where function.yaml carries it."""
    if not function.code:
        yield function.folder.resolve()
        return
    with TemporaryDirectory(prefix="headrace-try-") as folder:  # deleted once the handler has returned
        module = Path(folder).joinpath(*function.handler_module.split(".")).with_suffix(".py")
        # The handler's module may be in a package.
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(function.code, encoding="utf-8")
        yield Path(folder)

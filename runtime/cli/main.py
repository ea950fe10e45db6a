"""The command line: `headrace`."""

import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from headrace.runtime.cli.dead_letters import deadletters
from headrace.runtime.cli.groups import groups, lag, seek
from headrace.runtime.cli.kafka import kafka
from headrace.runtime.cli.new import new
from headrace.runtime.cli.partition import partition
from headrace.runtime.cli.schema import schema
from headrace.runtime.cli.validate import set_option, validate
from headrace.runtime.config.function import FunctionSpec, load_function
from headrace.runtime.errors import ConfigError, HeadraceError, Problem, UsageError
from headrace.runtime.kafka.addresses import checked_address
from headrace.runtime.log import set_up_logging
from headrace.runtime.processor.admin import TcpAddress
from headrace.runtime.processor.options import RunOptions
from headrace.runtime.processor.run import run_functions
from headrace.runtime.settings.overrides import Override, parse_overrides


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headrace")
def headrace() -> None:
    """Run Python functions on Kafka: every record is handled, none is lost."""


headrace.add_command(new)
headrace.add_command(kafka)
kafka.add_command(groups)
kafka.add_command(lag)
kafka.add_command(seek)
headrace.add_command(partition)
headrace.add_command(deadletters)
headrace.add_command(validate)
headrace.add_command(schema)


@headrace.command()
@click.argument("paths", metavar="PATH...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--brokers", multiple=True, metavar="HOST:PORT", help="Instead of the function's own brokers.")
@set_option
@click.option("--embedded-kafka", is_flag=True, help="Start a Kafka here, with the triggers' topics.")
@click.option(
    "--replicas",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="How many processes share the partitions on this machine.",
)
@click.option("--admin-host", default="127.0.0.1", show_default=True, help="Of /live, /ready and the rest.")
@click.option(
    "--admin-port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="0: a free one."
)
@click.option("--admin-socket", type=click.Path(path_type=Path), hidden=True)
@click.option("--replica-name", default="", hidden=True)
@click.option("--parent-fd", type=int, hidden=True)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="debug includes the Kafka client's own lines.",
)
@click.option(
    "--log-format",
    type=click.Choice(["console", "json"]),
    default="console",
    show_default=True,
    help="json: one object a line, for log collectors.",
)
def run(  # noqa: PLR0913  # one argument per option
    paths: tuple[Path, ...],
    brokers: tuple[str, ...],
    set_texts: tuple[str, ...],
    *,
    embedded_kafka: bool,
    replicas: int,
    admin_host: str,
    admin_port: int,
    admin_socket: Path | None,
    replica_name: str,
    parent_fd: int | None,
    log_level: str,
    log_format: str,
) -> None:
    """Run the function in PATH, a function.yaml, its folder or a handler's file, until Ctrl-C.

    Several share the embedded Kafka, one Spark server and the admin server.
    """
    if embedded_kafka and brokers:
        raise click.UsageError("--embedded-kafka and --brokers exclude each other")
    set_up_logging(log_level, "json" if log_format == "json" else "console", replica_name)
    functions = _load(paths, parse_overrides(set_texts, paths))
    for notice in () if replica_name else (notice for function in functions for notice in function.notices):
        logging.getLogger(__name__).info("%s", notice)
    options = RunOptions(
        paths=paths,
        brokers=tuple(_address(text) for option in brokers for text in option.split(",")),
        set_texts=set_texts,
        embedded_kafka=embedded_kafka,
        replicas=replicas,
        admin=admin_socket or TcpAddress(admin_host, admin_port),
        replica_name=replica_name,
        parent_fd=parent_fd,
        log_level=log_level,
        log_format=log_format,
    )
    asyncio.run(run_functions(functions, options))


def _load(paths: Sequence[Path], overrides: tuple[Override, ...]) -> list[FunctionSpec]:
    """All of them. ConfigError holds the problems of all files."""
    functions: list[FunctionSpec] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            functions.append(load_function(path, overrides=overrides, with_handler=True))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return functions


def _address(text: str) -> str:
    try:
        return checked_address(text.strip())
    except ValueError as error:
        raise UsageError(f"--brokers {error}") from None


def main() -> None:
    """The entry point. A HeadraceError is its text and its exit code, never a traceback."""
    try:
        headrace(prog_name="headrace")
    except HeadraceError as error:
        logging.shutdown()  # what led to it comes first
        click.echo(f"headrace: {error}", err=True)
        sys.exit(error.exit_code)

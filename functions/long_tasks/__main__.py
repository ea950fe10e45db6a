"""`python -m headrace.functions.long_tasks`: run workers for a task, set up by four variables."""

import logging
import os
import sys
from typing import Any

import click

from headrace.functions.long_tasks.pool import WorkerPool
from headrace.functions.long_tasks.settings import SettingsError, load_task, read_settings


@click.command()
@click.option("--task", default="headrace.functions.long_tasks.primes:count_primes", show_default=True)
@click.option("--workers", type=int, help="At most, and by default, as many as there are CPUs.")
@click.option("--unique-consumers", is_flag=True, help="Each worker is a member of the group.")
@click.option("--prefix", default="", help="Before the names of the four variables, such as ENGINE_.")
@click.option(
    "--argument", "arguments", multiple=True, metavar="NAME=VALUE", help="For every task. Repeatable."
)
@click.argument("options", nargs=-1)
def main(options: tuple[str, ...], arguments: tuple[str, ...], **pool_options: Any) -> None:
    """Answer requests with a task until Ctrl-C. OPTIONS, behind --, are those of `headrace run`."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        pool = _pool(**pool_options)
        named = dict(map(_argument, arguments))
    except (SettingsError, TypeError, ValueError) as error:
        print(error, file=sys.stderr)  # noqa: T201  # for the terminal
        sys.exit(2)
    # Never returns: this process becomes `headrace run`.
    pool.execute(*options, **named)


def _pool(task: str, workers: int | None, prefix: str, *, unique_consumers: bool) -> WorkerPool:
    settings = read_settings(os.environ, prefix)
    return WorkerPool(load_task(task), settings, workers, unique_consumers=unique_consumers)


def _argument(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"--argument {text}: expected NAME=VALUE")
    # The value stays text: only a script that calls WorkerPool itself can pass other JSON.
    return name, value


if __name__ == "__main__":
    main()

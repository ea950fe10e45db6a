"""`headrace status`: the state of a run, printed once."""

import asyncio
import json
from collections.abc import Iterator

import click

from headrace.runtime.cli.records.columns import Columns, show_columns, shown
from headrace.runtime.cli.records.options import as_json_option
from headrace.runtime.cli.running.admin_client import admin_option, token_option
from headrace.runtime.cli.running.status_client import RunStatus, ask_json, read_status
from headrace.runtime.errors import printable


@click.command()
@admin_option
@token_option
@as_json_option
def status(admin: str, admin_token: str, as_json: bool) -> None:
    """Show what runs: replicas, triggers, workers, partitions with their lag, and what has halted, with why.

    `headrace top` shows it again and again. Exit codes: 1 nobody answers, 2 a mistake in the command.
    """
    answer = asyncio.run(ask_json(admin, admin_token, "/api/status"))
    if as_json:
        click.echo(json.dumps(answer))  # as the admin server says it: programs know that form
        return
    run = read_status(admin, answer)
    click.echo(printable(f"{', '.join(run.functions)}: {'not ready' if run.problems else 'ready'}"))
    for line in (*run.problems, *_halted(run)):
        click.echo(f"  {printable(line)}")
    for columns in (_triggers(run), _workers(run), _partitions(run)):
        if columns.rows:
            click.echo()
            show_columns(columns)


def _halted(run: RunStatus) -> Iterator[str]:
    for partition in (it for _, it in run.partitions if it.is_stuck):
        why = f" ({partition.reason})" if partition.reason else ""
        yield f"`headrace partition retry {partition.place}`, or skip, moves it on{why}"


def _triggers(run: RunStatus) -> Columns:
    heads = [
        "replica",
        "trigger",
        "kind",
        "workers",
        "in flight",
        "restarts",
        "partitions",
        "lag",
        "called at",
    ]
    rows = []
    for it in run.triggers:
        numbers = map(str, (it.in_flight, it.restarts, len(it.partitions), it.lag))
        rows.append((it.replica or "-", it.title, it.kind, it.ready, *numbers, it.url or "-"))
    return Columns(heads, rows)


def _workers(run: RunStatus) -> Columns:
    heads = ["replica", "trigger", "worker", "pid", "in flight", "restarts", "state", "is in"]
    rows = []
    for trigger, it in run.workers:
        numbers = map(shown, (it.index, it.pid, it.in_flight, it.restarts))
        rows.append((trigger.replica or "-", trigger.title, *numbers, it.state, it.running or "-"))
    return Columns(heads, rows)


def _partitions(run: RunStatus) -> Columns:
    heads = ["replica", "trigger", "partition", "worker", "committed", "end", "lag", "in flight", "state"]
    rows = []
    for trigger, it in run.partitions:
        numbers = map(shown, (it.committed, it.end, it.lag, it.in_flight))
        rows.append(
            (trigger.replica or "-", trigger.title, it.place, trigger.worker_of(it), *numbers, it.state)
        )
    return Columns(heads, rows)

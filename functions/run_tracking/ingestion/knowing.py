"""What has to be known of runs before their messages can be folded."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from headrace.functions.run_tracking.ingestion.folding import Known, Sourced
from headrace.functions.run_tracking.messages.items import LogCustomObject, LogHParams, LogMetric, LogRecord
from headrace.functions.run_tracking.store.tables import RUN_ATTRS, RUNS, STEPLESS, TOMBSTONES, TRACES

_MOST_AT_ONCE = 500  # of what a statement names: SQLite has a limit


def know(connection: sa.Connection, runs: Mapping[str, Sequence[Sourced]]) -> dict[str, Known]:
    """Of each run, as far as its messages ask for it."""
    found = {run_id: Known() for run_id in runs}
    for row in _rows(connection, sa.select(TOMBSTONES.c.run_id), TOMBSTONES.c.run_id, found):
        found[row["run_id"]].is_deleted = True
    columns = sa.select(RUNS.c.id, RUNS.c.created_at, RUNS.c.client_started_at)
    for row in _rows(connection, columns, RUNS.c.id, found):
        known = found[row["id"]]
        known.created_at, known.started_at = row["created_at"], row["client_started_at"]
    with_params = [run_id for run_id, of_run in runs.items() if _any(of_run, LogHParams)]
    for row in _rows(connection, sa.select(RUN_ATTRS), RUN_ATTRS.c.run_id, with_params):
        found[row["run_id"]].attrs = json.loads(row["attrs"])
    for run_id, of_run in runs.items():
        if sources := [_source(it) for it in of_run if _is_stepless(it)]:
            _know_steps(connection, run_id, sources, found[run_id])
    return found


def _know_steps(connection: sa.Connection, run_id: str, sources: Sequence[str], known: Known) -> None:
    of_run = sa.select(STEPLESS.c.source, STEPLESS.c.step).where(STEPLESS.c.run_id == run_id)
    given = _rows(connection, of_run, STEPLESS.c.source, sources)
    known.steps_given = {row["source"]: row["step"] for row in given}
    last = sa.select(TRACES.c.context_id, TRACES.c.name, TRACES.c.last_step).where(TRACES.c.run_id == run_id)
    for context, name, step in connection.execute(last):
        known.last_steps[context, name] = step


def _any(of_run: Iterable[Sourced], kind: type[Any]) -> bool:
    return any(isinstance(it.message.item, kind) for it in of_run)


def _is_stepless(it: Sourced) -> bool:
    item = it.message.item
    return isinstance(item, LogRecord) or (
        isinstance(item, LogMetric | LogCustomObject) and item.step is None
    )


def _source(it: Sourced) -> str:
    """As folding has it."""
    return getattr(it.message.item, "message_id", None) or it.source


def _rows(
    connection: sa.Connection, query: Any, column: sa.Column[str], names: Iterable[str]
) -> Iterable[sa.RowMapping]:
    names = list(names)
    for start in range(0, len(names), _MOST_AT_ONCE):
        part = query.where(column.in_(names[start : start + _MOST_AT_ONCE]))
        yield from connection.execute(part).mappings()

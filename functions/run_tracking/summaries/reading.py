"""Stored runs and steps as Arrow tables for Spark, and a fingerprint that shows whether they have changed."""

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from headrace.functions.database.engine import read_only
from headrace.functions.run_tracking.store import tables as t

_MOST_ROWS_AT_ONCE = 5_000
_MOST_ROWS = 200_000  # of a table: it is in this process's memory, and goes to Spark in one message
_MOST_BYTES = 16_000_000
# Step, value and time, 8 bytes each.
_BYTES_OF_NUMBERS = 24
STEP_SCHEMA = pa.schema(
    [
        pa.field("run", pa.string()),
        pa.field("name", pa.string()),
        pa.field("context", pa.string()),
        pa.field("step", pa.int64()),
        pa.field("value", pa.float64()),
        pa.field("time", pa.timestamp("us", tz="UTC")),
    ]
)
RUN_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in ("run", "run_name", "experiment")])
_VERSION = "1"  # change it when the same rows give other summaries


def read_steps(engine: sa.Engine) -> Iterator[pa.Table]:
    """Yield all steps of metrics as tables of STEP_SCHEMA, each bounded in size. NaN becomes null."""
    s, c = t.SEQUENCES.c, t.CONTEXTS.c
    is_its = (c.run_id == s.run_id) & (c.context_id == s.context_id)
    query = (
        sa.select(s.run_id, s.name, sa.func.coalesce(c.context, "{}"), s.step, s.value, s.time)
        .join(t.RUNS, t.RUNS.c.id == s.run_id)
        .join(t.CONTEXTS, is_its, isouter=True)
        .order_by(s.run_id, s.context_id, s.name, s.step)
    )
    part: list[Any] = []
    size = 0
    for row in _rows(engine, query):
        part.append(row)
        # An estimate of what the row takes in Arrow.
        size += _BYTES_OF_NUMBERS + sum(map(len, row[:3]))
        if len(part) >= _MOST_ROWS or size >= _MOST_BYTES:
            yield _table(part)
            part, size = [], 0
    if part:
        yield _table(part)


def read_runs(engine: sa.Engine) -> pa.Table:
    """Return all runs as a table of RUN_SCHEMA. `experiment` is null for a run without one."""
    r, e = t.RUNS.c, t.EXPERIMENTS.c
    query = sa.select(r.id, r.name, e.name).join(t.EXPERIMENTS, e.id == r.experiment_id, isouter=True)
    columns: tuple[list[Any], ...] = ([], [], [])
    for row in _rows(engine, query):
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    return pa.table(list(columns), RUN_SCHEMA)


def _table(rows: list[Any]) -> pa.Table:
    run, name, context, step, value, time = zip(*rows, strict=True)
    numbers = [None if number is None or math.isnan(number) else number for number in value]
    return pa.table([run, name, context, step, numbers, time], STEP_SCHEMA)


def _rows(engine: sa.Engine, query: Any) -> Iterator[Any]:
    """Yield rows as the database sends them, without all of them in memory."""
    with read_only(engine).connect() as connection:
        yield from connection.execution_options(yield_per=_MOST_ROWS_AT_ONCE).execute(query)


def fingerprint(engine: sa.Engine) -> str:
    """Return a hash that changes with runs, experiments and steps.

    The database scans all steps and returns one row for each sequence.
    """
    found = hashlib.sha256(_VERSION.encode())
    with read_only(engine).connect() as connection:
        for query in (_runs(), _experiments(), _traces(), _steps()):
            for row in connection.execution_options(yield_per=1_000).execute(query):
                found.update(repr(tuple(row)).encode(errors="surrogatepass"))
            # Between the queries, so that a row counts as a row of its own query only.
            found.update(b"\0")
    return found.hexdigest()


def _runs() -> Any:
    r = t.RUNS.c
    return sa.select(r.id, r.name, r.experiment_id).order_by(r.id)


def _experiments() -> Any:
    return sa.select(t.EXPERIMENTS).order_by(t.EXPERIMENTS.c.id)


def _traces() -> Any:
    """Query for the last step of each sequence: one that is overwritten may have the same time."""
    r = t.TRACES.c
    key = r.run_id, r.context_id, r.name
    return sa.select(*key, r.last, r.last_step).order_by(*key)


def _steps() -> Any:
    """Query for figures of each sequence. No sum of values, which may overflow."""
    s = t.SEQUENCES.c
    key = s.run_id, s.context_id, s.name
    of_values = sa.func.count(s.value), sa.func.min(s.value), sa.func.max(s.value)
    places = sa.func.count(), sa.func.sum(sa.cast(s.step, sa.Double)), sa.func.max(s.time)
    return sa.select(*key, *of_values, *places).group_by(*key).order_by(*key)

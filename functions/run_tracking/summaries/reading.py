"""What is stored of all runs, as tables that Spark takes."""

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


def read_steps(engine: sa.Engine) -> Iterator[pa.Table]:
    """All of metrics, of STEP_SCHEMA, in tables of a bounded size. A value that is NaN is null."""
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
        size += _BYTES_OF_NUMBERS + sum(map(len, row[:3]))
        if len(part) >= _MOST_ROWS or size >= _MOST_BYTES:
            yield _table(part)
            part, size = [], 0
    if part:
        yield _table(part)


def read_runs(engine: sa.Engine) -> pa.Table:
    """All, of RUN_SCHEMA. A run of no experiment has null there."""
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
    """As they come, without all of them in memory."""
    with read_only(engine).connect() as connection:
        yield from connection.execution_options(yield_per=_MOST_ROWS_AT_ONCE).execute(query)

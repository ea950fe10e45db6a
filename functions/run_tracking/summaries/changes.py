"""Whether there is anything to be summed up that hasn't been."""

import hashlib
from typing import Any

import sqlalchemy as sa

from headrace.functions.database.engine import read_only
from headrace.functions.run_tracking.store import tables as t

_VERSION = "1"  # another one where the summaries of the same rows are others


def fingerprint(engine: sa.Engine) -> str:
    """The same as long as runs, experiments and steps are. The database reads all steps, and sends few."""
    found = hashlib.sha256(_VERSION.encode())
    with read_only(engine).connect() as connection:
        for query in (_runs(), _experiments(), _traces(), _steps()):
            for row in connection.execution_options(yield_per=1_000).execute(query):
                found.update(repr(tuple(row)).encode(errors="surrogatepass"))
            found.update(b"\0")
    return found.hexdigest()


def _runs() -> Any:
    r = t.RUNS.c
    return sa.select(r.id, r.name, r.experiment_id).order_by(r.id)


def _experiments() -> Any:
    return sa.select(t.EXPERIMENTS).order_by(t.EXPERIMENTS.c.id)


def _traces() -> Any:
    """A step that is said anew, and is the last, may be of the same time."""
    r = t.TRACES.c
    key = r.run_id, r.context_id, r.name
    return sa.select(*key, r.last, r.last_step).order_by(*key)


def _steps() -> Any:
    """No sum of values, which may be too large for one."""
    s = t.SEQUENCES.c
    key = s.run_id, s.context_id, s.name
    of_values = sa.func.count(s.value), sa.func.min(s.value), sa.func.max(s.value)
    places = sa.func.count(), sa.func.sum(sa.cast(s.step, sa.Double)), sa.func.max(s.time)
    return sa.select(*key, *of_values, *places).group_by(*key).order_by(*key)

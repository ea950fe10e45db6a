"""Which minutes have to be summed anew, and their new sums in place of the old."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from headrace.functions.database.engine import read_only
from headrace.functions.model_metrics.store.tables import (
    CONFUSION,
    COUNTS,
    ERRORS,
    FEEDBACK,
    RESPONSES,
    TOUCHED,
)
from headrace.functions.model_metrics.store.writer import minutes_of, touch

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """A minute of a model. `changes` is how often it had been touched when it was taken."""

    namespace: str
    model_name: str
    start: datetime
    changes: int

    def has(self, table: sa.Table, time: str) -> sa.ColumnElement[bool]:
        """Of the rows of `table` that are of it."""
        columns = table.c
        is_in = (columns[time] >= self.start) & (columns[time] < self.start + MINUTE)
        return (columns.namespace == self.namespace) & (columns.model_name == self.model_name) & is_in


Sums = Mapping[sa.Table, Sequence[Mapping[str, Any]]]
"""Rows of COUNTS, CONFUSION and ERRORS."""


def matches() -> sa.ColumnElement[bool]:
    """Whether a row of FEEDBACK is of a row of RESPONSES. A key is the request's id where nothing else is."""
    r, f = RESPONSES.c, FEEDBACK.c
    is_of_model = (
        (f.namespace == r.namespace) & (f.model_name == r.model_name) & (f.pipeline_name == r.pipeline_name)
    )
    has_own = r.request_id == f.request_id
    return is_of_model & (has_own | (r.request_id.is_(None) & (r.inference_response_id == f.request_id)))


def touch_for_feedback(engine: sa.Engine, most: int) -> int:
    """Touch the minutes of responses that new feedback is about; return of how many.

    Feedback that comes before its response waits: that will touch its minute by itself.
    """
    found = (
        sa.select(
            FEEDBACK.c.id, RESPONSES.c.namespace, RESPONSES.c.model_name, RESPONSES.c.response_timestamp
        )
        .join(RESPONSES, matches())
        .where(FEEDBACK.c.is_counted.is_(sa.false()))
        .limit(most)
    )
    with read_only(engine).connect() as connection:  # it may take long, and writers don't wait for it
        rows = connection.execute(found).all()
    if not rows:
        return 0
    with engine.begin() as connection:
        times = ((row.namespace, row.model_name, row.response_timestamp) for row in rows)
        connection.execute(touch(engine), minutes_of(times))
        counted = sa.update(FEEDBACK).where(FEEDBACK.c.id == sa.bindparam("of")).values(is_counted=True)
        connection.execute(counted, [{"of": number} for number in sorted({row.id for row in rows})])
    return len(rows)


def take(engine: sa.Engine, most: int) -> list[Bucket]:
    """The oldest that wait. They stay until their sums are written."""
    with read_only(engine).connect() as connection:
        rows = connection.execute(sa.select(TOUCHED).order_by(TOUCHED.c.bucket).limit(most))
        return [Bucket(row.namespace, row.model_name, row.bucket, row.changes) for row in rows]


def waiting(engine: sa.Engine) -> int:
    """How many."""
    with read_only(engine).connect() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(TOUCHED)).scalar_one())


def write(engine: sa.Engine, buckets: Iterable[Bucket], sums: Sums) -> None:
    """In one transaction. A minute that was touched or summed by another one meanwhile is left alone."""
    with engine.begin() as connection:
        current = [bucket for bucket in sorted(buckets) if _is_current(connection, bucket)]
        kept = {(bucket.namespace, bucket.model_name, bucket.start) for bucket in current}
        for table in (COUNTS, CONFUSION, ERRORS):
            for bucket in current:
                connection.execute(sa.delete(table).where(bucket.has(table, "bucket")))
            rows = [
                row for row in sums[table] if (row["namespace"], row["model_name"], row["bucket"]) in kept
            ]
            if rows:
                connection.execute(sa.insert(table), rows)
        for bucket in current:
            connection.execute(sa.delete(TOUCHED).where(bucket.has(TOUCHED, "bucket")))


def _is_current(connection: sa.Connection, bucket: Bucket) -> bool:
    """And stays so to the transaction's end."""
    changes = sa.select(TOUCHED.c.changes).where(bucket.has(TOUCHED, "bucket")).with_for_update()
    return connection.execute(changes).scalar() == bucket.changes

"""Queue of minutes whose sums are out of date, and the replacement of their sums."""

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
    """A minute of a model. `changes` is the change counter of its row when that was read."""

    namespace: str
    model_name: str
    start: datetime
    changes: int

    def has(self, table: sa.Table, time: str) -> sa.ColumnElement[bool]:
        """Return the condition for rows of `table` whose column `time` lies in this minute of this model."""
        columns = table.c
        is_in = (columns[time] >= self.start) & (columns[time] < self.start + MINUTE)
        return (columns.namespace == self.namespace) & (columns.model_name == self.model_name) & is_in


Sums = Mapping[sa.Table, Sequence[Mapping[str, Any]]]
"""New rows for COUNTS, CONFUSION and ERRORS."""


def feedback_matches() -> sa.ColumnElement[bool]:
    """Return the condition that a row of FEEDBACK belongs to a row of RESPONSES.

    A response without a request id is matched by its key.
    """
    r, f = RESPONSES.c, FEEDBACK.c
    is_of_model = (
        (f.namespace == r.namespace) & (f.model_name == r.model_name) & (f.pipeline_name == r.pipeline_name)
    )
    has_own = r.request_id == f.request_id
    return is_of_model & (has_own | (r.request_id.is_(None) & (r.inference_response_id == f.request_id)))


def touch_for_feedback(engine: sa.Engine, most: int) -> int:
    """Queue the minutes of responses that new feedback is about; return how many rows were handled.

    Feedback that comes before its response stays uncounted: the response queues its minute itself.
    """
    found = (
        sa.select(
            FEEDBACK.c.id, RESPONSES.c.namespace, RESPONSES.c.model_name, RESPONSES.c.response_timestamp
        )
        .join(RESPONSES, feedback_matches())
        .where(FEEDBACK.c.is_counted.is_(sa.false()))
        .limit(most)
    )
    with read_only(engine).connect() as connection:  # long reads, which hold up no writer
        rows = connection.execute(found).all()
    if not rows:
        return 0
    with engine.begin() as connection:
        times = ((row.namespace, row.model_name, row.response_timestamp) for row in rows)
        connection.execute(touch(engine), minutes_of(times))
        # In one transaction with the queue: feedback that is counted has its minute queued. In order, so that
        # two workers don't wait for each other's rows.
        counted = sa.update(FEEDBACK).where(FEEDBACK.c.id == sa.bindparam("of")).values(is_counted=True)
        connection.execute(counted, [{"of": number} for number in sorted({row.id for row in rows})])
    return len(rows)


def next_buckets(engine: sa.Engine, most: int) -> list[Bucket]:
    """Return the oldest buckets that wait, `most` at most. They stay queued until their sums are written."""
    with read_only(engine).connect() as connection:
        rows = connection.execute(sa.select(TOUCHED).order_by(TOUCHED.c.bucket).limit(most))
        return [Bucket(row.namespace, row.model_name, row.bucket, row.changes) for row in rows]


def count_waiting(engine: sa.Engine) -> int:
    """Return how many buckets wait."""
    with read_only(engine).connect() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(TOUCHED)).scalar_one())


def replace_sums(engine: sa.Engine, buckets: Iterable[Bucket], sums: Sums) -> None:
    """Replace the sums of `buckets`, in one transaction.

    A bucket that has been changed, or summed by another process, since it was read is left alone.
    """
    with engine.begin() as connection:
        current = [bucket for bucket in sorted(buckets) if _is_current(connection, bucket)]
        kept = {(bucket.namespace, bucket.model_name, bucket.start) for bucket in current}
        # Deleted and inserted, not updated: after other feedback a bucket may have fewer rows than before.
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
    """Whether the bucket is unchanged since it was read. Its row stays locked until the transaction ends."""
    changes = sa.select(TOUCHED.c.changes).where(bucket.has(TOUCHED, "bucket")).with_for_update()
    # None where another process has written the sums and removed the row: the bucket isn't current then.
    return connection.execute(changes).scalar() == bucket.changes

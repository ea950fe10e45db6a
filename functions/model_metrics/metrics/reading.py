"""Stored responses and feedback of some minutes, as Arrow tables for Spark."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from headrace.functions.database.engine import read_only
from headrace.functions.model_metrics.messages.feedback import Kind
from headrace.functions.model_metrics.messages.predictions import class_of, number_of, predictions_of
from headrace.functions.model_metrics.metrics.work_queue import Bucket, feedback_matches
from headrace.functions.model_metrics.store.tables import FEEDBACK, RESPONSES, SUMS_KEY

_MOST_ROWS_AT_ONCE = 5_000
_MODEL = [pa.field(name, pa.string()) for name in SUMS_KEY[:-1]]
# Unix seconds: Spark would show times in the session's zone.
_OF_ALL = [*_MODEL, pa.field("bucket", pa.int64())]
RESPONSE_SCHEMA = pa.schema(_OF_ALL)
JUDGED_SCHEMA = pa.schema(
    [
        *_OF_ALL,
        pa.field("kind", pa.string()),
        pa.field("actual", pa.string()),
        pa.field("predicted", pa.string()),
        pa.field("error", pa.float64()),
    ]
)
_KEY_COLUMNS = (
    RESPONSES.c.namespace,
    RESPONSES.c.model_name,
    # The version is part of the key of the sums, and a key has no nulls.
    sa.func.coalesce(RESPONSES.c.model_version, "").label("model_version"),
    RESPONSES.c.pipeline_name,
)


def read_responses(engine: sa.Engine, buckets: Iterable[Bucket]) -> pa.Table:
    """Return a table of RESPONSE_SCHEMA, one row for each response in the buckets."""
    return _table(RESPONSE_SCHEMA, (row for bucket in buckets for row in _responses(engine, bucket)))


def read_judged(engine: sa.Engine, buckets: Iterable[Bucket]) -> pa.Table:
    """Return a table of JUDGED_SCHEMA, one row for each prediction in the buckets that has feedback."""
    return _table(JUDGED_SCHEMA, (row for bucket in buckets for row in _judged(engine, bucket)))


def _responses(engine: sa.Engine, bucket: Bucket) -> Iterator[dict[str, Any]]:
    # A query for each bucket: one model and one minute are one range of the index.
    query = sa.select(*_KEY_COLUMNS).where(bucket.has(RESPONSES, "response_timestamp"))
    seconds = _seconds(bucket.start)
    for row in _rows(engine, query):
        yield {**row, "bucket": seconds}


def _judged(engine: sa.Engine, bucket: Bucket) -> Iterator[dict[str, Any]]:
    f = FEEDBACK.c
    query = (
        sa.select(
            RESPONSES.c.id, *_KEY_COLUMNS, RESPONSES.c.payload_json, f.batch_index, f.kind, f.label, f.number
        )
        .join(FEEDBACK, feedback_matches())
        .where(bucket.has(RESPONSES, "response_timestamp"))
        .order_by(RESPONSES.c.id, f.feedback_timestamp, f.id)
    )
    # In order of time: later feedback replaces earlier one for the same prediction.
    latest = {(row["id"], row["batch_index"], row["kind"]): row for row in _rows(engine, query)}
    seconds = _seconds(bucket.start)
    for row in latest.values():
        if (judged := _judge(row)) is not None:
            yield {
                **{name: row[name] for name in SUMS_KEY[:-1]},
                "bucket": seconds,
                "kind": row["kind"],
                **judged,
            }


def _judge(row: Any) -> dict[str, Any] | None:
    """Compare a prediction with its feedback; None if the response predicts nothing of that kind there."""
    predictions = predictions_of(row["payload_json"])
    if row["batch_index"] >= len(predictions):
        return None
    prediction = predictions[row["batch_index"]]
    if row["kind"] == Kind.CLASSIFICATION:
        predicted = class_of(prediction)
        return None if predicted is None else {"actual": row["label"], "predicted": predicted, "error": None}
    number = number_of(prediction)
    return None if number is None else {"actual": None, "predicted": None, "error": number - row["number"]}


def _rows(engine: sa.Engine, query: Any) -> Iterator[Any]:
    """Yield rows as the database sends them, without all of them in memory."""
    with read_only(engine).connect() as connection:
        yield from connection.execution_options(yield_per=_MOST_ROWS_AT_ONCE).execute(query).mappings()


def _table(schema: pa.Schema, rows: Iterator[dict[str, Any]]) -> pa.Table:
    batches = []
    # In batches: only the rows of one are dicts at a time.
    while part := [row for _, row in zip(range(_MOST_ROWS_AT_ONCE), rows, strict=False)]:
        batches.append(pa.RecordBatch.from_pylist(part, schema))
    return pa.Table.from_batches(batches, schema)


def _seconds(time: datetime) -> int:
    return int(time.timestamp())

"""The cron job that brings the sums of all changed minutes up to date, with Spark."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from pyspark.sql import functions as sql

from headrace.functions.model_metrics.messages.feedback import Kind
from headrace.functions.model_metrics.metrics import work_queue
from headrace.functions.model_metrics.metrics.reading import read_judged, read_responses
from headrace.functions.model_metrics.metrics.work_queue import Sums
from headrace.functions.model_metrics.store.tables import CONFUSION, COUNTS, ERRORS, SUMS_KEY

_MOST_BUCKETS = 100  # what is read of them is in this process's memory
_MOST_FEEDBACK = 10_000


def sum_up(spark: Any, responses: pa.Table, judged: pa.Table) -> Sums:
    """Sum up tables of RESPONSE_SCHEMA and JUDGED_SCHEMA; return rows for COUNTS, CONFUSION and ERRORS."""
    counts = spark.createDataFrame(responses).groupBy(*SUMS_KEY).agg(sql.count("*").alias("responses"))
    predictions = spark.createDataFrame(judged)
    classes = predictions.where(sql.col("kind") == Kind.CLASSIFICATION.value)
    numbers = predictions.where(sql.col("kind") == Kind.REGRESSION.value)
    confusion = classes.groupBy(*SUMS_KEY, "actual", "predicted").agg(sql.count("*").alias("predictions"))
    errors = numbers.groupBy(*SUMS_KEY).agg(
        sql.count("*").alias("predictions"),
        sql.sum(sql.abs("error")).alias("absolute"),
        sql.sum(sql.col("error") * sql.col("error")).alias("squared"),
    )
    return {COUNTS: _rows(counts), CONFUSION: _rows(confusion), ERRORS: _rows(errors)}


def _rows(frame: Any) -> list[dict[str, Any]]:
    return [
        {**row, "bucket": datetime.fromtimestamp(row["bucket"], UTC)} for row in frame.toArrow().to_pylist()
    ]


def bring_up_to_date(spark: Any, engine: sa.Engine) -> int:
    """Sum up the minutes that wait for it now; return how many. Several may run at once.

    Raises SQLAlchemy's and Spark's errors; minutes that weren't summed stay in the queue for the next firing.
    """
    while work_queue.touch_for_feedback(engine, _MOST_FEEDBACK):
        pass
    # What waits now is the work of this firing.
    total, left = 0, work_queue.count_waiting(engine)
    while left > 0 and (buckets := work_queue.next_buckets(engine, _MOST_BUCKETS)):
        responses: pa.Table = read_responses(engine, buckets)
        work_queue.replace_sums(engine, buckets, sum_up(spark, responses, read_judged(engine, buckets)))
        total += len(buckets)
        left -= len(buckets)  # minutes that change meanwhile wait for the next firing
    return total

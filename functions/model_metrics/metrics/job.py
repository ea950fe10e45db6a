"""Bring all sums up to date: what a cron trigger does."""

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


def sum_up(spark: Any, responses: pa.Table, judged: pa.Table) -> Sums:
    """Of the tables that reading.py makes: rows for COUNTS, CONFUSION and ERRORS."""
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


_MOST_BUCKETS = 100  # at once: what is read of them is in this process's memory


_MOST_FEEDBACK = 10_000


def bring_up_to_date(spark: Any, engine: sa.Engine) -> int:
    """Sum up what has been touched by now; return of how many minutes. Two may do so at once.

    Raises SQLAlchemy's and Spark's errors; what was not summed waits for the next time.
    """
    while work_queue.touch_for_feedback(engine, _MOST_FEEDBACK):
        pass
    total, left = 0, work_queue.waiting(engine)
    while left > 0 and (buckets := work_queue.take(engine, _MOST_BUCKETS)):
        responses: pa.Table = read_responses(engine, buckets)
        work_queue.write(engine, buckets, sum_up(spark, responses, read_judged(engine, buckets)))
        total += len(buckets)
        left -= len(buckets)  # what is touched for ever is no reason to go on for ever
    return total

"""Sums of each minute, by Spark."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as sql

from headrace.functions.model_metrics.messages.feedback import Kind
from headrace.functions.model_metrics.metrics.work_queue import Sums
from headrace.functions.model_metrics.store.sums import CONFUSION, COUNTS, ERRORS, SUMS_KEY


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

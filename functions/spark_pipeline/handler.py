"""The handler of spark_pipeline: the user's query over JSON records, rows to Parquet, totals to a table.

A batch is acked by returning, after both writes. README.md says how to set it up.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.functions.events import Event
from headrace.functions.spark import json_events_to_dataframe, write_parquet
from headrace.functions.spark_pipeline.settings import PipelineError, Settings, read_settings
from headrace.functions.tables import write_table

_PLACE = ("topic", "partition", "offset")


class Pipeline:
    """The pipeline of one worker. It keeps nothing between batches: all state is in the sinks."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, spark: SparkSession) -> None:
        """Run an empty batch, which also creates the table. Raises PipelineError, one line."""
        settings = self._settings
        records = self._records(spark, ())
        _tried("PIPELINE_SCHEMA", lambda: records.columns)
        rows = _tried("PIPELINE_SQL", lambda: self._rows(spark, records))
        if missing := [name for name in _PLACE if name not in rows.columns]:
            raise PipelineError(
                f"PIPELINE_SQL gives no column {', '.join(missing)}; "
                "select topic, partition, offset, which tell where a row comes from"
            )
        totals = _tried("PIPELINE_WINDOW, or its _TIME, _BY or _VALUES", lambda: self._totals(spark))
        _tried("PIPELINE_PARQUET", lambda: write_parquet(rows, settings.parquet, ()))
        _tried("PIPELINE_DATABASE", lambda: self._write_totals(totals, ()))

    def run(self, spark: SparkSession, events: Sequence[Event]) -> int:
        """Write the batch to both sinks, replacing what they have of it. Return the number of totals."""
        rows = self._rows(spark, self._records(spark, events))
        write_parquet(rows, self._settings.parquet, events)
        return self._write_totals(self._totals(spark), events)

    def _records(self, spark: SparkSession, events: Sequence[Event]) -> DataFrame:
        return json_events_to_dataframe(spark, events, self._settings.schema)

    def _rows(self, spark: SparkSession, records: DataFrame) -> DataFrame:
        # Rows are part of the plan and sent with each action; a view keeps them on the server for both sinks.
        records.createOrReplaceTempView("records")
        rows = spark.sql(self._settings.query)
        rows.createOrReplaceTempView("rows")
        return rows

    def _totals(self, spark: SparkSession) -> DataFrame:
        """Return totals by window for each partition: a redelivery replaces them, readers add them up."""
        settings = self._settings
        # As text and never null: the columns are part of the table's primary key.
        by = [f"coalesce(string({name}), '') AS {name}" for name in settings.window_by]
        keys = [*_PLACE[:2], f"window({settings.window_time}, '{settings.window}')", *settings.window_by]
        columns = [
            "topic",
            "partition",
            "min(offset) AS offset",
            "window.start AS window_start",
            "window.end AS window_end",
            *by,
            settings.window_values,
        ]
        return spark.sql(f"SELECT {', '.join(columns)} FROM rows GROUP BY {', '.join(keys)}")  # noqa: S608  # its own

    def _write_totals(self, totals: DataFrame, events: Sequence[Event]) -> int:
        key = (*_PLACE, "window_start", *self._settings.window_by)
        return write_table(totals, self._settings.database, self._settings.table, events, key)


def _tried(setting: str, step: Callable[[], Any]) -> Any:
    try:
        return step()
    except Exception as error:
        text = error.getMessage() if isinstance(error, PySparkException) else str(error)
        line = (text or type(error).__name__).strip().splitlines()[0]
        raise PipelineError(f"{setting}: {line}") from None


def init_context(context: Any) -> None:
    """Check all settings before the first batch. Raises PipelineError."""
    context.user_data.pipeline = Pipeline(read_settings(os.environ))
    # An empty batch goes through every step: Spark and the database name mistakes best themselves.
    context.user_data.pipeline.check(context.spark)


def handler(context: Any, events: Sequence[Event]) -> None:
    """Write a batch to both sinks."""
    totals = context.user_data.pipeline.run(context.spark, events)
    context.logger.info_with("batch written", records=len(events), totals=totals)

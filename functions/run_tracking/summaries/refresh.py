"""Refresh of the summaries by Spark: it writes the curves, then sums up what it has written."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from pyspark.sql import functions as sql

from headrace.functions.run_tracking.summaries.folders import last_fingerprint, publish
from headrace.functions.run_tracking.summaries.reading import fingerprint, read_runs, read_steps
from headrace.functions.spark.temporary_folder import temporary_folder

# Spark infers types from an Arrow table's rows, and here are none, and there may be none.
# LTZ: TIMESTAMP alone has no zone where spark.sql.timestampType says so.
_STEPS = "run STRING, name STRING, context STRING, step BIGINT, value DOUBLE, time TIMESTAMP_LTZ"
_RUNS = "run STRING, run_name STRING, experiment STRING"
_KEY = ("run", "name", "context")


def append_curves(spark: Any, tables: Iterable[pa.Table], folder: Path) -> int:
    """Write tables of reading.STEP_SCHEMA to FOLDER/curves; return the number of steps."""
    # Not INT96, Spark's default, which has no zone.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    steps, where = 0, str(folder / "curves")
    _write(spark.createDataFrame([], _STEPS), where)  # a folder without a row is one, too
    for table in tables:
        _write(spark.createDataFrame(table), where)
        steps += table.num_rows
    return steps


def write_summaries(spark: Any, runs: pa.Table, folder: Path) -> None:
    """Write FOLDER/runs and FOLDER/experiments from FOLDER/curves and a table of reading.RUN_SCHEMA."""
    about = spark.createDataFrame(runs if runs.num_rows else [], _RUNS)
    of_runs = _sum_runs(spark.read.schema(_STEPS).parquet(str(folder / "curves")), about)
    _write(of_runs, str(folder / "runs"))
    # Read back rather than computed again: the plan would scan all curves once more.
    written = spark.read.parquet(str(folder / "runs"))
    _write(_sum_experiments(written), str(folder / "experiments"))


def _sum_runs(curves: Any, runs: Any) -> Any:
    """Return a row for each metric of each run. Values that are null count in `count` only."""
    sums = curves.groupBy(*_KEY).agg(
        sql.count("*").alias("count"),
        sql.min("value").alias("min"),
        sql.max("value").alias("max"),
        sql.avg("value").alias("mean"),
        sql.max_by("value", "step").alias("last"),
        sql.max("step").alias("last_step"),
    )
    return sums.join(runs, "run").select("experiment", "run_name", *sums.columns).orderBy(*_KEY)


def _sum_experiments(of_runs: Any) -> Any:
    """Return a row for each metric of each experiment, from the last values of its runs."""
    key = "experiment", "name", "context"
    last = (sql.min("last").alias("min"), sql.avg("last").alias("mean"), sql.max("last").alias("max"))
    return of_runs.groupBy(*key).agg(sql.countDistinct("run").alias("runs"), *last).orderBy(*key)


def _write(frame: Any, folder: str) -> None:
    frame.coalesce(1).write.mode("append").parquet(folder)


def refresh(spark: Any, engine: sa.Engine, root: Path) -> int | None:
    """Write all three folders anew and publish them together, if anything has changed.

    Returns the number of steps, None if nothing has changed. Several may run at once. Spark's executors
    write and this process renames, as in functions/spark/parquet.py: both have to see `root` under the same
    path, on a file system with atomic renames and symbolic links. Raises SQLAlchemy's, Spark's and the file
    system's errors; what was published stays then.
    """
    # Before the rows are read: what comes meanwhile is a change for the next time.
    current = fingerprint(engine)
    if current == last_fingerprint(root):
        return None
    with temporary_folder(root) as temporary:
        written = temporary / "written"
        steps = append_curves(spark, read_steps(engine), written)
        write_summaries(spark, read_runs(engine), written)
        publish(root, written, current)
    return steps

"""All three folders anew, together, where something has changed."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from pyspark.sql import functions as sql

from headrace.functions.run_tracking.summaries.folders import last_fingerprint, publish
from headrace.functions.run_tracking.summaries.reading import fingerprint, read_runs, read_steps
from headrace.functions.spark.temporary_folder import temporary_folder

# Spark looks at the rows of an Arrow table for its types, and there may be none.
_STEPS = "run STRING, name STRING, context STRING, step BIGINT, value DOUBLE, time TIMESTAMP"


_RUNS = "run STRING, run_name STRING, experiment STRING"


_KEY = ("run", "name", "context")


def append_curves(spark: Any, tables: Iterable[pa.Table], folder: Path) -> int:
    """FOLDER/curves, of reading.STEP_SCHEMA; return of how many steps."""
    spark.conf.set(
        "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"
    )  # not INT96, which has no zone
    steps, where = 0, str(folder / "curves")
    _write(spark.createDataFrame([], _STEPS), where)  # a folder without a row is one, too
    for table in tables:
        _write(spark.createDataFrame(table), where)
        steps += table.num_rows
    return steps


def write_summaries(spark: Any, runs: pa.Table, folder: Path) -> None:
    """FOLDER/runs and FOLDER/experiments, of FOLDER/curves and a table of reading.RUN_SCHEMA."""
    about = spark.createDataFrame(runs if runs.num_rows else [], _RUNS)
    of_runs = _sum_runs(spark.read.schema(_STEPS).parquet(str(folder / "curves")), about)
    _write(of_runs, str(folder / "runs"))
    written = spark.read.parquet(str(folder / "runs"))
    _write(_sum_experiments(written), str(folder / "experiments"))


def _sum_runs(curves: Any, runs: Any) -> Any:
    """A row for each metric. What is no number is counted, and in nothing else."""
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
    """A row for each metric, a name in a context, of the last values of all runs."""
    key = "experiment", "name", "context"
    last = (sql.min("last").alias("min"), sql.avg("last").alias("mean"), sql.max("last").alias("max"))
    return of_runs.groupBy(*key).agg(sql.countDistinct("run").alias("runs"), *last).orderBy(*key)


def _write(frame: Any, folder: str) -> None:
    frame.coalesce(1).write.mode("append").parquet(folder)


def refresh(spark: Any, engine: sa.Engine, root: Path) -> int | None:
    """How many steps there are; None where nothing has changed. Two may do so at once.

    Spark's executors write, this process renames, as in functions/spark/parquet.py: both must see `root`
    under the same path, on a file system whose rename is atomic and which has symbolic links.
    Raises SQLAlchemy's, Spark's and the file system's errors; what was there stays then.
    """
    now = fingerprint(engine)  # before the rows are read: what comes meanwhile is a change for the next time
    if now == last_fingerprint(root):
        return None
    with temporary_folder(root) as temporary:
        written = temporary / "written"
        steps = append_curves(spark, read_steps(engine), written)
        write_summaries(spark, read_runs(engine), written)
        publish(root, written, now)
    return steps

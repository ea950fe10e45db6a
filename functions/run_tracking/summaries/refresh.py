"""All three folders anew, together, where something has changed."""

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from headrace.functions.run_tracking.summaries.changes import fingerprint
from headrace.functions.run_tracking.summaries.folders import last_fingerprint, publish
from headrace.functions.run_tracking.summaries.reading import read_runs, read_steps
from headrace.functions.run_tracking.summaries.summing import append_curves, write_summaries
from headrace.functions.spark.temporary_folder import temporary_folder


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

"""The summaries service: a cron trigger's firing has Spark sum up all runs, if anything has changed."""

from pathlib import Path
from typing import Any

from headrace.functions.database.engine import open_engine
from headrace.functions.database.retry import retry_write
from headrace.functions.database.schema import migrate
from headrace.functions.run_tracking.settings import Settings
from headrace.functions.run_tracking.store.tables import MIGRATIONS


def prepare(context: Any, settings: Settings) -> None:
    """Migrate the database, which may take until it can be reached."""
    data = context.user_data
    data.engine = open_engine(settings.database)
    retry_write(lambda: migrate(data.engine, MIGRATIONS), context.logger)
    data.summaries = Path(settings.summaries).absolute()


def handle(context: Any, event: Any) -> None:
    """Refresh the summaries.

    Raises SQLAlchemy's and Spark's errors; what was published stays, and the next firing tries again.
    """
    # Imported here: only this trigger needs Spark.
    from headrace.functions.run_tracking.summaries.refresh import refresh

    steps = refresh(context.spark, context.user_data.engine, context.user_data.summaries)
    context.logger.debug_with("summed up", steps=steps)

"""What a cron trigger does: all runs summed up by Spark, where something has changed since."""

from pathlib import Path
from typing import Any

from headrace.functions.database.engine import open_engine
from headrace.functions.database.retry import retry_write
from headrace.functions.database.schema import migrate
from headrace.functions.run_tracking.settings import Settings
from headrace.functions.run_tracking.store.tables import MIGRATIONS


def prepare(context: Any, settings: Settings) -> None:
    """Waits for a database that is away."""
    data = context.user_data
    data.engine = open_engine(settings.database)
    retry_write(lambda: migrate(data.engine, MIGRATIONS), context.logger)
    data.summaries = Path(settings.summaries).absolute()


def handle(context: Any, event: Any) -> None:
    """Raises SQLAlchemy's and Spark's errors: what is there stays, and the next firing does it."""
    from headrace.functions.run_tracking.summaries.refresh import refresh  # Spark, where it is needed

    steps = refresh(context.spark, context.user_data.engine, context.user_data.summaries)
    context.logger.debug_with("summed up", steps=steps)

"""The handler of a Spark pipeline; README.md says how to set it up.

It acks by returning: that comes after both writes, and nothing of the batch is left to do then. Explicit acks
would say the same, with a message for each record.
"""

import os
from collections.abc import Sequence
from typing import Any

from headrace.functions.events import Event
from headrace.functions.spark_pipeline.pipeline import Pipeline
from headrace.functions.spark_pipeline.settings import read_settings


def init_context(context: Any) -> None:
    """Find every mistake before the first batch. Raises PipelineError."""
    context.user_data.pipeline = Pipeline(read_settings(os.environ))
    context.user_data.pipeline.check(context.spark)


def handler(context: Any, events: Sequence[Event]) -> None:
    """Write, then return."""
    totals = context.user_data.pipeline.run(context.spark, events)
    context.logger.info_with("batch written", records=len(events), totals=totals)

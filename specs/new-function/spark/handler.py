"""Called for each batch of records of the topic: written as Parquet, by Spark. What raises is tried again."""

import os

from headrace import Context, Event
from headrace.functions.spark import events_to_dataframe, write_parquet

FOLDER = os.environ.get("PARQUET_FOLDER", "words.parquet")


def handler(context: Context, events: list[Event]) -> None:
    rows = events_to_dataframe(context.spark, events)
    words = rows.selectExpr(
        *("topic", "partition", "offset"), "size(split(trim(string(value)), ' +')) AS words"
    )
    write_parquet(words, FOLDER, events)  # a batch that comes again replaces its files
    context.logger.info_with("a batch", records=len(events))

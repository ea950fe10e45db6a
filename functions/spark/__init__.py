"""Batches as Spark DataFrames, and a Parquet sink in which a batch replaces itself (`headrace[spark]`).

A handler writes, then returns: the return acks the batch. A batch that is cut off before that comes again
with the same boundaries (docs/design/delivery.md), and what it had written is replaced.
"""

from headrace.functions.spark.dataframes import (
    events_to_dataframe,
    json_events_to_dataframe,
    parse_json,
    ranges_to_dataframe,
)
from headrace.functions.spark.parquet import write_parquet

__all__ = [
    "events_to_dataframe",
    "json_events_to_dataframe",
    "parse_json",
    "ranges_to_dataframe",
    "write_parquet",
]

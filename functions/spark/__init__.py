"""From a batch to a Spark DataFrame, and from a DataFrame to a place where a batch replaces itself.

Always write, then return: the return acks the batch. What is killed in between comes again with the same
boundaries (docs/design/delivery.md), and what it had written is replaced.
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

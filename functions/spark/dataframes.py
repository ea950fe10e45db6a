"""Batches as DataFrames: events through Arrow, ranges of offsets through Spark's own Kafka source."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from headrace.functions.events import Event, Span, runs_of


class Context(Protocol):
    """The attributes of a handler's context that are used here."""

    @property
    def spark(self) -> SparkSession: ...
    @property
    def source_options(self) -> Mapping[str, str]: ...


_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
# The names and types of Spark's own Kafka source, so that a query works on both.
_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(_HEADER)),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
_NO_ROWS = (  # Spark infers types from an Arrow table's rows, and here are none
    "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    # LTZ: TIMESTAMP alone has no zone where spark.sql.timestampType says so.
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP_LTZ"
)
_END = "253402300800000000"  # microseconds from 1970 to the year 10000, which Python doesn't know
_BAD = "bad_record"


def events_to_dataframe(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    """Return one row for each event: key, value, headers, topic, partition, offset, timestamp.

    Names and types are those of Spark's Kafka source: key and value are binary, headers an array of structs
    of key and value, timestamp is in UTC to the microsecond. An empty batch gives an empty DataFrame of the
    same columns. The rows are part of the query's plan and are sent with each action; a temporary view sends
    them once.
    """
    if not events:
        return spark.createDataFrame([], _NO_ROWS)
    columns = [
        [event.key for event in events],
        [event.body for event in events],
        [event.header_list for event in events],
        [event.topic for event in events],
        [event.shard_id for event in events],
        [event.offset for event in events],
        [event.timestamp for event in events],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=_SCHEMA))


def ranges_to_dataframe(context: Context, ranges: Sequence[Event], **options: str) -> DataFrame:
    """Return the columns of `events_to_dataframe` for a batch of `delivery: ranges`.

    Spark's executors read the rows from Kafka when an action needs them, one task for each partition, and
    again for each further action unless the rows are persisted. `options` are added to those of Spark's Kafka
    source, `minPartitions` for example. Source: "Structured Streaming + Kafka Integration Guide", batch
    queries. An action fails if records have been deleted since, or have a time that Spark can't hold, such as
    nanoseconds in the place of milliseconds. As in events, `timestamp` is null where a record has none, or
    one before 1970 or beyond the year 9999.
    """
    reader = context.spark.read.format("kafka").options(**context.source_options, includeHeaders="true")
    read = [reader.options(**_assignment(of_one_read), **options).load() for of_one_read in _reads(ranges)]
    if not read:
        return context.spark.createDataFrame([], _NO_ROWS)
    rows = reduce(DataFrame.unionAll, read).select(*_SCHEMA.names)
    # Kafka's -1 for no time would be a moment of 1969, and no client could read a year of five digits.
    has_time = sql.expr(f"unix_micros(timestamp) >= 0 AND unix_micros(timestamp) < {_END}")
    return rows.withColumn("timestamp", sql.when(has_time, sql.col("timestamp")))


def _reads(ranges: Sequence[Event]) -> Iterator[Sequence[Span]]:
    """Split ranges into reads: one read of Spark takes one range of each partition."""
    # Spark's options have one start and one end for each partition of a read.
    waiting = list(runs_of(ranges))
    while waiting:
        first_ranges = {(span.topic, span.partition): span for span in reversed(waiting)}
        yield list(first_ranges.values())
        waiting = [span for span in waiting if span not in first_ranges.values()]


def _assignment(spans: Sequence[Span]) -> dict[str, str]:
    """Return the options that name partitions and offsets. endingOffsets are exclusive, as `end` is."""
    partitions: dict[str, list[int]] = defaultdict(list)
    first: dict[str, dict[str, int]] = defaultdict(dict)
    end: dict[str, dict[str, int]] = defaultdict(dict)
    for span in spans:
        partitions[span.topic].append(span.partition)
        first[span.topic][str(span.partition)] = span.first
        end[span.topic][str(span.partition)] = span.end
    return {
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(first),
        "endingOffsets": json.dumps(end),
    }


def json_events_to_dataframe(spark: SparkSession, events: Sequence[Event], schema: str) -> DataFrame:
    """Return `parse_json` of `events_to_dataframe`."""
    return parse_json(events_to_dataframe(spark, events), schema)


def parse_json(df: DataFrame, schema: str) -> DataFrame:
    """Return the columns of `df`, then `record`, a struct of `schema` read from `value`, and `bad_record`.

    `schema` is Spark's DDL: `id STRING, amount DOUBLE`. A value that doesn't fit it is in `bad_record`, as
    text, and `record` has those fields that could be read. In good rows and tombstones `bad_record` is null.
    """
    # from_json puts the text of what it can't parse into the column that columnNameOfCorruptRecord names,
    # if the schema has that column.
    text = sql.col("value").cast("string")
    fields = sql.from_json(text, f"{schema}, {_BAD} STRING", {"columnNameOfCorruptRecord": _BAD})
    parsed = df.withColumn("record", fields)
    # An empty text and a bare null aren't records either, but Spark doesn't report them as corrupt.
    bad = sql.when(sql.col("record").isNull(), text).otherwise(sql.col(f"record.{_BAD}"))
    return parsed.withColumn(_BAD, bad).withColumn("record", sql.col("record").dropFields(_BAD))

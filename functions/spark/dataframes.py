"""A batch of events as a DataFrame, through Arrow."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from headrace.functions.events import Event

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
_NO_ROWS = (  # Spark looks at the rows of an Arrow table for its types
    "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
)
_BAD = "bad_record"


def events_to_dataframe(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    """A row per event: key, value, headers (array of key and value), topic, partition, offset, timestamp.

    The rows travel in the query's plan, again with each action on it: a temporary view sends them once.
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


def json_events_to_dataframe(spark: SparkSession, events: Sequence[Event], schema: str) -> DataFrame:
    """The columns of `events_to_dataframe`, then `record`, a struct of `schema`, and `bad_record`, text.

    `schema` is Spark's DDL: `id STRING, amount DOUBLE`. A value that doesn't fit it stands in `bad_record`,
    and `record` has those fields that could be read; in good rows and tombstones `bad_record` is null.
    """
    text = sql.col("value").cast("string")
    fields = sql.from_json(text, f"{schema}, {_BAD} STRING", {"columnNameOfCorruptRecord": _BAD})
    parsed = events_to_dataframe(spark, events).withColumn("record", fields)
    # An empty text and a bare null are no records either, but Spark doesn't call them corrupt.
    bad = sql.when(sql.col("record").isNull(), text).otherwise(sql.col(f"record.{_BAD}"))
    return parsed.withColumn(_BAD, bad).withColumn("record", sql.col("record").dropFields(_BAD))

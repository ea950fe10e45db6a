"""Totals of orders, computed where Spark reads them: no record comes through this process.

`ranges` are offsets. The handler returns once the totals are on disk: that is the ack. A range that comes
again replaces its file.
"""

import os

from headrace.functions.spark import parse_json, ranges_to_dataframe, write_parquet

FOLDER = os.environ.get("TOTALS_FOLDER", "totals.parquet")
SCHEMA = "id STRING, item STRING, quantity INT, price DOUBLE"
TOTALS = """
    SELECT topic, partition, min(offset) AS offset, record.item, count(*) AS orders,
           sum(record.quantity * record.price) AS total
    FROM {orders} WHERE bad_record IS NULL GROUP BY topic, partition, record.item
"""


def handler(context, ranges):
    orders = parse_json(ranges_to_dataframe(context, ranges), SCHEMA)
    write_parquet(context.spark.sql(TOTALS, orders=orders), FOLDER, ranges)
    context.logger.info_with("written", ranges=[f"{r.shard_id}: {r.first_offset}-{r.offset}" for r in ranges])

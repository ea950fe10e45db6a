"""Orders from JSON to Parquet, with their totals, by Spark.

The handler returns once the rows are on disk: that is the ack. A batch that comes again replaces its files.
"""

import os

from headrace.functions.spark import json_events_to_dataframe, write_parquet

FOLDER = os.environ.get("ORDERS_FOLDER", "orders.parquet")
SCHEMA = "id STRING, item STRING, quantity INT, price DOUBLE"


def handler(context, events):
    orders = json_events_to_dataframe(context.spark, events, SCHEMA)
    place = ("topic", "partition", "offset")
    rows = orders.selectExpr(*place, "record.*", "record.quantity * record.price AS total", "bad_record")
    files = write_parquet(rows, FOLDER, events)
    context.logger.info_with("orders written", orders=len(events), files=len(files))

"""A connection that init_context opens and all records use."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: database
#   spec:
#     runtime: python:3.11
#     handler: database:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [database]
#           consumerGroup: database

# says: rows 3

import json
import sqlite3


def init_context(context):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE numbers (n INTEGER)")
    context.user_data.db = connection


def handler(context, event):
    with context.user_data.db as db:
        db.execute("INSERT INTO numbers VALUES (?)", (json.loads(event.body)["n"],))
        (count,) = db.execute("SELECT count(*) FROM numbers").fetchone()
    context.logger.info_with(f"rows {count}", offset_in_topic=event.offset)

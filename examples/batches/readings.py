"""Writes each batch of readings into SQLite in one transaction.

A row's key is the record's place in Kafka: a batch that comes again replaces its own rows.
"""

import os
import sqlite3

FILE = os.environ.get("READINGS_FILE", "readings.sqlite")
TABLE = """
    CREATE TABLE IF NOT EXISTS readings (
        topic TEXT, partition INTEGER, offset INTEGER, body TEXT, attempt INTEGER,
        PRIMARY KEY (topic, partition, offset)
    )
"""
UPSERT = "INSERT OR REPLACE INTO readings VALUES (?, ?, ?, ?, ?)"


def init_context(context):
    context.user_data.database = sqlite3.connect(FILE, timeout=30)
    with context.user_data.database as database:
        database.execute(TABLE)


def handler(context, events):
    rows = [(e.topic, e.shard_id, e.offset, e.body.decode(), e.attempt) for e in events]
    with context.user_data.database as database:  # commits, or rolls back if anything raises
        database.executemany(UPSERT, rows)
    context.logger.info_with("one transaction", readings=len(rows))

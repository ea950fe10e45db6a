"""Quix Streams, `to_topic` for each record: FILE BOOTSTRAP TOPIC GROUP COUNTER_FOLDER."""

import sys
from pathlib import Path

from counter import Counter
from quixstreams import Application

bootstrap, topic, group, folder = sys.argv[1:]
counter = Counter(Path(folder))
app = Application(
    broker_address=bootstrap,
    consumer_group=group,
    auto_offset_reset="earliest",
    processing_guarantee="at-least-once",
    producer_extra_config={"acks": "all", "enable.idempotence": True},
    loglevel="ERROR",
)
records = app.dataframe(app.topic(topic, key_deserializer="bytes", value_deserializer="bytes"))
records.update(lambda _: counter.add(1))
records.to_topic(app.topic("produced", key_serializer="bytes", value_serializer="bytes"))
app.run()

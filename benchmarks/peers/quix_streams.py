"""Quix Streams, a call per record: FILE BOOTSTRAP TOPIC GROUP COUNTER_FOLDER."""

import sys
from pathlib import Path

from counter import Counter
from quixstreams import Application

bootstrap, topic, group, folder = sys.argv[1:]
counter = Counter(Path(folder))
app = Application(
    broker_address=bootstrap, consumer_group=group, auto_offset_reset="earliest", loglevel="ERROR"
)
records = app.dataframe(app.topic(topic, value_deserializer="bytes"))
records.update(lambda _: counter.add(1))
app.run()

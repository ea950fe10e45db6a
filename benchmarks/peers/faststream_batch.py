"""FastStream, batches of 500: FILE BOOTSTRAP TOPIC GROUP COUNTER_FOLDER."""

import asyncio
import sys
from pathlib import Path

from counter import Counter
from faststream import FastStream
from faststream.kafka import KafkaBroker

bootstrap, topic, group, folder = sys.argv[1:]
counter = Counter(Path(folder))
broker = KafkaBroker(bootstrap, logger=None)


@broker.subscriber(topic, group_id=group, batch=True, max_records=500, auto_offset_reset="earliest")
async def handle(records: list[bytes]) -> None:
    """A count per record."""
    for _ in records:
        counter.add(1)


asyncio.run(FastStream(broker, logger=None).run())

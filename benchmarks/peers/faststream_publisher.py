"""FastStream, batches of 500, acked once published: FILE BOOTSTRAP TOPIC GROUP COUNTER_FOLDER."""

import asyncio
import sys
from pathlib import Path

from counter import Counter
from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker

bootstrap, topic, group, folder = sys.argv[1:]
counter = Counter(Path(folder))
broker = KafkaBroker(bootstrap, logger=None, acks="all", enable_idempotence=True, max_batch_size=1 << 20)


@broker.publisher("produced", batch=True)
@broker.subscriber(
    topic,
    group_id=group,
    batch=True,
    max_records=500,
    auto_offset_reset="earliest",
    ack_policy=AckPolicy.NACK_ON_ERROR,
)
async def handle(records: list[bytes]) -> list[bytes]:
    """A count and a result per record."""
    for _ in records:
        counter.add(1)
    return records


asyncio.run(FastStream(broker, logger=None).run())

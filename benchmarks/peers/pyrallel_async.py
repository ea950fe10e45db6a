"""Pyrallel-Consumer, async workers in order of partition: FILE BOOTSTRAP TOPIC GROUP COUNTER_FOLDER."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from counter import Counter
from pyrallel_consumer import KafkaConfig, PyrallelConsumer

bootstrap, topic, group, folder = sys.argv[1:]
counter = Counter(Path(folder))


async def handle(_: Any) -> None:
    """A count per record."""
    counter.add(1)


async def main() -> None:
    """Until killed."""
    config = KafkaConfig(BOOTSTRAP_SERVERS=[bootstrap], CONSUMER_GROUP=group, AUTO_OFFSET_RESET="earliest")
    consumer = PyrallelConsumer(config=config, worker=handle, topic=topic)
    await consumer.start()
    await asyncio.Event().wait()


asyncio.run(main())

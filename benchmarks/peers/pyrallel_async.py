"""Pyrallel-Consumer, async workers in order of key, its default: FILE BOOTSTRAP TOPIC GROUP COUNTER_FOLDER.

Where BENCH_SECONDS is set a record takes so long, and as many run at once as Headrace's maxConcurrency in the
same bench.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from counter import Counter
from pyrallel_consumer import KafkaConfig, PyrallelConsumer

bootstrap, topic, group, folder = sys.argv[1:]
counter = Counter(Path(folder))
said = os.environ.get("BENCH_SECONDS")
seconds = float(said or 0)


async def handle(_: Any) -> None:
    """A count per record."""
    if seconds:
        await asyncio.sleep(seconds)
    counter.add(1)


async def main() -> None:
    """Until killed."""
    config = KafkaConfig(BOOTSTRAP_SERVERS=[bootstrap], CONSUMER_GROUP=group, AUTO_OFFSET_RESET="earliest")
    if said is not None:
        config.parallel_consumer.execution.max_in_flight = 100
    consumer = PyrallelConsumer(config=config, worker=handle, topic=topic)
    await consumer.start()
    await asyncio.Event().wait()


asyncio.run(main())

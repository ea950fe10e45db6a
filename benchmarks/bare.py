"""The limit of the client: a bare aiokafka loop, getmany(500), a count per record, a commit a second.

usage: bare.py BOOTSTRAP TOPIC GROUP COUNTER_FOLDER
"""

import asyncio
import sys
import time
from pathlib import Path

from aiokafka import AIOKafkaConsumer
from counter import Counter


async def main(bootstrap: str, topic: str, group: str, folder: Path) -> None:
    """Until killed."""
    counter = Counter(folder)
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    committed = time.monotonic()
    while True:
        for records in (await consumer.getmany(timeout_ms=200, max_records=500)).values():
            for _ in records:
                counter.add(1)
        if time.monotonic() - committed > 1:
            await consumer.commit()
            committed = time.monotonic()


asyncio.run(main(*sys.argv[1:4], Path(sys.argv[4])))

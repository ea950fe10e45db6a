"""The limit of the client: a bare aiokafka loop, getmany(500), a count per record, a commit a second.

usage: bare.py BOOTSTRAP TOPIC GROUP COUNTER_FOLDER
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiokafka import AIOKafkaConsumer
from counter import Counter


async def run(
    loop: Callable[[AIOKafkaConsumer, Counter], Awaitable[None]],
    bootstrap: str,
    topic: str,
    group: str,
    folder: Path,
) -> None:
    """Until killed."""
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    ) as consumer:
        await loop(consumer, Counter(folder))


async def by_many(consumer: AIOKafkaConsumer, counter: Counter) -> None:
    """getmany(500)."""
    committed = time.monotonic()
    while True:
        for records in (await consumer.getmany(timeout_ms=200, max_records=500)).values():
            for _ in records:
                counter.add(1)
        committed = await _commit(consumer, committed)


async def by_one(consumer: AIOKafkaConsumer, counter: Counter) -> None:
    """`async for`, a call per record."""
    committed = time.monotonic()
    async for _ in consumer:
        counter.add(1)
        if not counter.count % 1000:
            committed = await _commit(consumer, committed)


async def _commit(consumer: AIOKafkaConsumer, last: float) -> float:
    """Once a second; when that was."""
    now = time.monotonic()
    if now - last < 1:
        return last
    await consumer.commit()
    return now


if __name__ == "__main__":
    asyncio.run(run(by_many, *sys.argv[1:4], Path(sys.argv[4])))

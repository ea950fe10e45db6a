"""As bare_produce.py, by batches made by hand: what a partition brought goes to the same partition at once.

The limit of the client, where no record's key matters.

usage: bare_batches.py BOOTSTRAP TOPIC GROUP COUNTER_FOLDER
"""

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from bare import run
from bare_produce import OUT
from counter import Counter

_BATCH_BYTES = 1 << 18
_MOST_OPEN = 64  # batches


async def main(bootstrap: str, topic: str, group: str, folder: Path) -> None:
    """Until killed."""
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, max_batch_size=_BATCH_BYTES
    ) as producer:

        async def loop(consumer: AIOKafkaConsumer, counter: Counter) -> None:
            committed = time.monotonic()
            sent = []
            while True:
                found = await consumer.getmany(timeout_ms=200, max_records=500)
                for tp, records in found.items():
                    sent += [
                        await producer.send_batch(batch, OUT, partition=tp.partition)
                        for batch in batches(producer, records)
                    ]
                    for _ in records:
                        counter.add(1)
                is_time = time.monotonic() - committed > 1
                if is_time or len(sent) > _MOST_OPEN:
                    await asyncio.gather(*sent)
                    sent.clear()
                if is_time:
                    await consumer.commit()
                    committed = time.monotonic()

        await run(loop, bootstrap, topic, group, folder)


def batches(producer: AIOKafkaProducer, records: Sequence[Any]) -> Iterator[Any]:
    """All of them, in order."""
    batch = producer.create_batch()
    for it in records:
        if batch.append(timestamp=None, key=it.key, value=it.value) is None:
            yield batch
            batch = producer.create_batch()
            batch.append(timestamp=None, key=it.key, value=it.value)
    yield batch


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4], Path(sys.argv[4])))

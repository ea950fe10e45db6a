"""As bare.py, with a result for each record: idempotent, confirmed by all before each commit.

usage: bare_produce.py BOOTSTRAP TOPIC GROUP COUNTER_FOLDER
"""

import asyncio
import sys
import time
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from bare import run
from counter import Counter

OUT = "produced"


async def main(bootstrap: str, topic: str, group: str, folder: Path) -> None:
    """Until killed."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer:

        async def loop(consumer: AIOKafkaConsumer, counter: Counter) -> None:
            committed = time.monotonic()
            while True:
                found = (await consumer.getmany(timeout_ms=200, max_records=500)).values()
                sent = [await producer.send(OUT, it.value, it.key) for records in found for it in records]
                await asyncio.gather(*sent)
                for _ in sent:
                    counter.add(1)
                if time.monotonic() - committed > 1:
                    await consumer.commit()
                    committed = time.monotonic()

        await run(loop, bootstrap, topic, group, folder)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4], Path(sys.argv[4])))

"""What readers of committed transactions find."""

import asyncio

from aiokafka import AIOKafkaConsumer
from broker import Broker


def read_committed(broker: Broker, topic: str) -> list[bytes | None]:
    """Values of all that is there and whose transaction stands."""

    async def read() -> list[bytes | None]:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            auto_offset_reset="earliest",
            group_id=None,
            isolation_level="read_committed",
        )
        async with consumer:
            ends = await consumer.end_offsets(consumer.assignment())
            found: list[bytes | None] = []
            for tp, end in ends.items():
                while await consumer.position(tp) < end:
                    for records in (await consumer.getmany(tp, timeout_ms=200)).values():
                        found += [it.value for it in records if it.offset < end]
            return found

    return asyncio.run(read())

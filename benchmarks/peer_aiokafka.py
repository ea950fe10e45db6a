"""A bare aiokafka loop as people write it: one record after the other, a commit a second.

usage: peer_aiokafka.py BOOTSTRAP TOPIC GROUP HISTORY
"""

import asyncio
import signal
import sys
import time

from aiokafka import AIOKafkaConsumer
from peer_handler import handle


async def main(bootstrap: str, topic: str, group: str) -> None:
    """Until told to stop."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=2000,
        heartbeat_interval_ms=200,
    )
    is_stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, is_stopping.set)
    await consumer.start()
    committed = time.monotonic()
    try:
        while not is_stopping.is_set():
            for records in (await consumer.getmany(timeout_ms=200, max_records=20)).values():
                for record in records:
                    await handle(record.topic, record.partition, record.offset, record.value)
            if time.monotonic() - committed > 1:
                await consumer.commit()
                committed = time.monotonic()
        await consumer.commit()
    finally:
        await consumer.stop()


asyncio.run(main(*sys.argv[1:4]))

"""A FastStream subscriber with its defaults, or with one of its ack policies.

usage: peer_faststream.py BOOTSTRAP TOPIC GROUP HISTORY [ACK_POLICY]
"""

import asyncio
import sys

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker, KafkaMessage
from peer_handler import handle

bootstrap, topic, group, _, *policy = sys.argv[1:]
broker = KafkaBroker(bootstrap)
options = {"ack_policy": AckPolicy[policy[0]]} if policy else {}


@broker.subscriber(
    topic,
    group_id=group,
    auto_offset_reset="earliest",
    session_timeout_ms=2000,
    heartbeat_interval_ms=200,
    **options,
)
async def on_record(_: bytes, message: KafkaMessage) -> None:
    """One record."""
    record = message.raw_message
    await handle(record.topic, record.partition, record.offset, record.value)


asyncio.run(FastStream(broker).run())

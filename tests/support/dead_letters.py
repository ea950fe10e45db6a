"""What writes dead letters, the records that it gets, and the topic with what it wrote."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.streams.isolated_decoder import IsolatedDecoder
from headrace.triggers.kafka.dead_letters import KafkaDeadLetters
from headrace.triggers.kafka.settings.model import KafkaSettings


@dataclass(frozen=True, slots=True)
class Record:
    """What KafkaDeadLetters reads of a ConsumerRecord."""

    offset: int = 41
    timestamp: int | None = 1_700_000_000_123
    timestamp_type: int | None = 0
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())


@asynccontextmanager
async def dead_letters(bootstrap: str, topic: str, **settings: object) -> AsyncIterator[KafkaDeadLetters]:
    found = KafkaSettings.model_validate(
        {"topics": ("orders",), "brokers": (bootstrap,), "consumerGroup": "g", **settings}
    )
    letters = KafkaDeadLetters(found, topic, "shop", "headrace-shop-0", IsolatedDecoder(DeliveryPolicy()))
    try:
        yield letters
    finally:
        await letters.close()


async def written(bootstrap: str, topic: str, count: int) -> list[ConsumerRecord]:
    """All records of a topic; there must be exactly `count`."""
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        tps = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        ends = await consumer.end_offsets(tps)
        assert sum(ends.values()) == count
        records: list[ConsumerRecord] = []
        async with asyncio.timeout(120):
            while len(records) < count:
                for found in (await consumer.getmany(timeout_ms=1000)).values():
                    records += found
    return records

"""Ranges of offsets as handlers have them, and records of any time to read by them."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from aiokafka import AIOKafkaProducer
from broker import Broker
from pyspark.sql import SparkSession

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.topics import create_topics


@dataclass
class Range:
    topic: str
    shard_id: int
    first_offset: int
    offset: int
    key: None = None
    body: None = None
    header_list: list[tuple[str, bytes | None]] = field(default_factory=list)
    timestamp: datetime | None = None


@dataclass
class Context:
    spark: SparkSession
    source_options: Mapping[str, str]


def topic_of_times(broker: Broker, timestamps_ms: Sequence[int]) -> str:
    """A topic whose one partition has a record of each time, such as a broker takes from careless clients."""
    topic = f"times-{uuid.uuid4().hex[:12]}"
    config = {"message.timestamp.after.max.ms": str(2**63 - 1)}

    async def send() -> None:
        await create_topics(BrokerAccess(broker.bootstrap), {topic: 1}, config)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for timestamp in timestamps_ms:
                batch = producer.create_batch()
                batch.append(timestamp=timestamp, key=None, value=b"{}")
                await (await producer.send_batch(batch, topic, partition=0))

    asyncio.run(send())
    return topic

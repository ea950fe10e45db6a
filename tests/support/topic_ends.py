"""What lies in a topic, and where it ends."""

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition
from broker import Broker
from kafka_records import group_offsets


async def _ends(broker: Broker, topic: str) -> dict[tuple[str, int], int]:
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        consumer.subscribe([topic])
        while not (partitions := consumer.partitions_for_topic(topic)):
            await asyncio.sleep(0.01)
        ends = await consumer.end_offsets([TopicPartition(topic, number) for number in partitions])
        return {(it.topic, it.partition): end for it, end in ends.items()}


def ends(broker: Broker, topic: str) -> dict[tuple[str, int], int]:
    """The offset behind the last record, by topic and partition."""
    return asyncio.run(_ends(broker, topic))


def is_committed_to_its_end(broker: Broker, topic: str, group: str) -> bool:
    """Whether nothing is left to do of what was there when this was asked."""
    wanted, committed = ends(broker, topic), group_offsets(broker, group)
    return all(committed.get(place, 0) >= end for place, end in wanted.items())


def values(broker: Broker, topic: str) -> list[bytes | None]:
    """Of all records, partition by partition."""

    async def read() -> list[bytes | None]:
        found: list[bytes | None] = []
        wanted = await _ends(broker, topic)
        async with AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            for (_, number), end in wanted.items():
                place = TopicPartition(topic, number)
                consumer.assign([place])
                await consumer.seek_to_beginning(place)
                while await consumer.position(place) < end:
                    for records in (await consumer.getmany(timeout_ms=200)).values():
                        found += [record.value for record in records]
        return found

    return asyncio.run(read())

"""One test per name that we use of aiokafka's insides: an upgrade that changes one fails here, loudly."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from broker import Broker

from headrace.triggers import kafka_internals as internals


@asynccontextmanager
async def assigned_consumer(broker: Broker, topic: str) -> AsyncIterator[AIOKafkaConsumer]:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for partition in (0, 1):
            for number in range(10):
                await producer.send_and_wait(topic, str(number).encode(), partition=partition)
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, group_id=f"g-{topic}", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def test_a_fetch_gives_only_what_is_wanted(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        wanted = internals.Wanted({TopicPartition(topic, 1)})
        fetched = await internals.fetch(consumer, wanted, 10, max_records=100)
        assert {tp.partition: len(records) for tp, records in fetched.items()} == {1: 10}


async def test_nothing_wanted_is_nothing_fetched(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        assert await internals.fetch(consumer, internals.Wanted(), 0.5, max_records=100) == {}


async def test_waking_a_fetch_makes_it_look_at_what_is_wanted_now(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        internals.tune(consumer, retry_seconds=1)
        wanted = internals.Wanted({TopicPartition(topic, 0)})
        await internals.fetch(consumer, wanted, 10, max_records=100)  # now partition 1 lies unread
        waiting = asyncio.create_task(internals.fetch(consumer, wanted, 60, max_records=100))
        await asyncio.wait([waiting], timeout=0.3)
        assert not waiting.done()
        wanted.add(TopicPartition(topic, 1))
        internals.wake(consumer)
        assert [tp.partition for tp in await asyncio.wait_for(waiting, 10)] == [1]


async def test_a_partition_that_lies_unread_does_not_hold_back_its_node(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        internals.tune(consumer, retry_seconds=3)
        assert (consumer._fetcher._prefetch_backoff, consumer._fetcher._retry_backoff) == (0.0, 3)


async def test_the_generation_is_below_zero_without_a_membership(broker: Broker, topic: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        assert internals.generation(consumer) > 0
        consumer._coordinator.reset_generation()
        assert internals.generation(consumer) < 0


@pytest.mark.parametrize("name", ["fetched_records", "_fetch_waiters", "_notify"])
async def test_the_fetcher_has_what_we_call(broker: Broker, topic: str, name: str) -> None:
    async with assigned_consumer(broker, topic) as consumer:
        assert hasattr(consumer._fetcher, name)

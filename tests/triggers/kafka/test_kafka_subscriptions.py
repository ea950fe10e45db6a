"""A consumer's topics, changed while it runs: on a real broker."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from broker import Broker
from kafka_records import produce

from headrace.triggers.kafka.client.subscriptions import (
    drop,
    hurry_topics,
    place,
    read_by_hand,
    read_topics,
    resubscribe,
)


@pytest.fixture
async def consumer(broker: Broker, topic: str) -> AsyncIterator[AIOKafkaConsumer]:
    """Assigned, and its metadata is old after a second."""
    made = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=f"g-{topic}", metadata_max_age_ms=1000
    )
    await made.start()
    hurry_topics(made)
    made.subscribe([topic])
    try:
        while not made.assignment():
            await asyncio.sleep(0.01)
        yield made
    finally:
        await made.stop()


async def test_topics_that_change_amid_an_answer_are_asked_for_at_once(
    broker: Broker, topic: str, consumer: AIOKafkaConsumer
) -> None:
    client, other = consumer._client, broker.create_topic(2)
    update, has_changed = client._metadata_update, asyncio.Event()

    async def amid(*asked: object) -> bool:
        answer: bool = await update(*asked)
        if not has_changed.is_set():
            client._metadata_max_age_ms = 3_600_000
            client.set_topics([topic, other])
            has_changed.set()
        return answer

    client._metadata_update = amid
    await asyncio.wait_for(has_changed.wait(), 120)  # it was old
    await asyncio.wait_for(client._maybe_wait_metadata(), 120)
    assert client.cluster.partitions_for_topic(other) == {0, 1}


async def test_topics_come_and_go_under_an_assignment_that_stays_until_it_is_revoked(
    broker: Broker, topic: str, consumer: AIOKafkaConsumer
) -> None:
    other, before = broker.create_topic(2), consumer.assignment()
    assert resubscribe(consumer, [topic, other])
    assert consumer.assignment() == before
    while not any(tp.topic == other for tp in consumer.assignment()):  # it tells nobody
        await asyncio.sleep(0.01)
    while not resubscribe(consumer, [other]):  # amid a join
        await asyncio.sleep(0.01)
    while any(tp.topic == topic for tp in consumer.assignment()):
        await asyncio.sleep(0.01)
    assert consumer.subscription() == {other}


async def test_amid_a_join_nothing_is_changed(topic: str, consumer: AIOKafkaConsumer) -> None:
    consumer._coordinator._performed_join_prepare = True
    try:
        assert not resubscribe(consumer, ["another"])
        assert consumer.subscription() == {topic}
    finally:
        consumer._coordinator._performed_join_prepare = False


async def test_a_partition_comes_and_goes_and_the_others_are_fetched_as_they_were(
    broker: Broker, topic: str
) -> None:
    await asyncio.to_thread(produce, broker, topic, 32)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=None, auto_offset_reset="none", enable_auto_commit=False
    )
    await consumer.start()
    try:
        read_by_hand(consumer)
        read_topics(consumer, [topic])
        assert consumer.subscription() == {topic}
        place(consumer, first, 1, is_paused=False)
        assert [it.offset for it in (await consumer.getmany(timeout_ms=9000))[first]] == [1, 2, 3]
        assignment = consumer._subscription.subscription.assignment
        place(consumer, second, 2, is_paused=False)
        assert consumer.assignment() == {first, second}
        assert [it.offset for it in (await consumer.getmany(timeout_ms=9000))[second]] == [2, 3]
        drop(consumer, [second])
        await asyncio.to_thread(produce, broker, topic, 16)
        found = await consumer.getmany(timeout_ms=9000)
        assert {tp: [it.offset for it in records] for tp, records in found.items()} == {first: [4, 5]}
        place(consumer, second, 5, is_paused=False)
        assert [it.offset for it in (await consumer.getmany(timeout_ms=9000))[second]] == [5]
        assert consumer._subscription.subscription.assignment is assignment
    finally:
        await consumer.stop()

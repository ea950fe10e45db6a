"""A consumer's topics, changed while it runs: on a real broker."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer
from broker import Broker

from headrace.triggers.kafka.client.subscriptions import hurry_topics, resubscribe


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

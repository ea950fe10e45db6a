"""What the commands ask of a broker that has many topics."""

import asyncio
import uuid
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from broker import Broker

from headrace.runtime.kafka import client
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.client import list_topics
from headrace.runtime.kafka.topics import create_topics, know_topics

TOPICS = 30


async def test_their_number_changes_not_how_often_it_is_asked_where_they_are(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def ask(self: AIOKafkaClient) -> object:
        nonlocal asked
        asked += 1
        return update(self)

    update = AIOKafkaClient.force_metadata_update
    monkeypatch.setattr(AIOKafkaClient, "force_metadata_update", ask)
    access, mark = BrokerAccess(broker.bootstrap), uuid.uuid4().hex
    await create_topics(access, {f"{mark}-{number}": 2 for number in range(TOPICS)})
    found = [it for it in await list_topics(access, {}, []) if it["topic"].startswith(mark)]
    assert [it["end_offsets"] for it in found] == [[0, 0]] * TOPICS
    assert asked < TOPICS


@pytest.mark.parametrize("is_known", [False, True])
async def test_one_that_goes_meanwhile_is_left_out_and_not_waited_for(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    gone, left = broker.create_topic(1), broker.create_topic(1)

    async def know(*given: Any) -> None:
        if is_known:  # then its offsets are asked for
            await know_topics(*given)
        await asyncio.to_thread(broker.delete, gone)
        if not is_known:
            await know_topics(*given)

    monkeypatch.setattr(client, "know_topics", know)
    async with asyncio.timeout(30):
        names = {it["topic"] for it in await list_topics(BrokerAccess(broker.bootstrap), {}, [])}
    assert left in names
    assert gone not in names

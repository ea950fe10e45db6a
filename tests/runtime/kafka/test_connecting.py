"""A start or an end of a client that is cancelled, at whichever step, leaves nothing open."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import AIOKafkaConnection
from broker import Broker

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.connecting import start_client
from headrace.runtime.kafka.producer import discard, start_producer

CLIENTS: dict[str, Callable[..., Any]] = {
    "admin": AIOKafkaAdminClient,
    "consumer": AIOKafkaConsumer,
    "producer": AIOKafkaProducer,
    "transactions": lambda **options: AIOKafkaProducer(**options, transactional_id="t"),
}


def left_open() -> list[AIOKafkaConnection]:
    return [it for it in gc.get_objects() if isinstance(it, AIOKafkaConnection) and it.connected()]


@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_start_that_is_cancelled_leaves_no_connection(broker: Broker, kind: str) -> None:
    for steps in range(40):
        client = CLIENTS[kind](bootstrap_servers=broker.bootstrap)
        starting = asyncio.create_task(start_client(client))
        for _ in range(steps):
            await asyncio.sleep(0.0003)  # a step is a turn of the loop, or an answer
        starting.cancel()
        await asyncio.wait([starting])
        await (getattr(client, "stop", None) or client.close)()
        assert left_open() == [], f"after {steps} steps"
        if not starting.cancelled():
            return


async def test_an_end_that_is_cancelled_closes_all_the_same(broker: Broker) -> None:
    for steps in range(1, 5):  # with none it has not begun
        producer = await start_producer(BrokerAccess(broker.bootstrap), "test", "t")
        ending = asyncio.create_task(discard(producer))
        for _ in range(steps):
            await asyncio.sleep(0)
        ending.cancel()
        await asyncio.wait([ending])
        assert left_open() == [], f"after {steps} steps"

"""A start of a client that is cancelled, at whichever step, leaves nothing open."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import AIOKafkaConnection
from broker import Broker

from headrace.runtime.kafka.connecting import start_client

CLIENTS: dict[str, Callable[..., Any]] = {
    "admin": AIOKafkaAdminClient,
    "consumer": AIOKafkaConsumer,
    "producer": AIOKafkaProducer,
    "transactions": lambda **options: AIOKafkaProducer(**options, transactional_id="t"),
}
CLOSES = {"admin": "close"}


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
        await getattr(client, CLOSES.get(kind, "stop"))()
        assert left_open() == [], f"after {steps} steps"
        if not starting.cancelled():
            return

"""Whoever listens where a broker should may say anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from broker import Broker
from servers import GuardedBroker

from headrace.runtime.errors import BrokerError
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.client import connected
from headrace.runtime.kafka.connecting import connect_errors
from headrace.runtime.kafka.not_a_broker import MAX_BYTES, AnswerTooLargeError

HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"


@asynccontextmanager
async def answering(first: bytes) -> AsyncIterator[tuple[BrokerAccess, list[int]]]:
    """A server that says `first`, and then zeros without end. How many it got rid of is written down."""
    sent = [0]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(first)
        try:
            while not writer.is_closing():
                writer.write(bytes(1 << 16))
                await writer.drain()
                sent[0] += 1 << 16
        except ConnectionError:
            pass

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield BrokerAccess(f"127.0.0.1:{server.sockets[0].getsockname()[1]}"), sent


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (HTTP, "is a web server, and does not speak Kafka"),
        (b"\x7f\xff\xff\xff", "speaks no Kafka, or only with TLS"),
        (b"\xff\xff\xff\xff", "speaks no Kafka, or only with TLS"),
    ],
)
async def test_an_answer_without_end_is_not_taken_in(first: bytes, said: str) -> None:
    async with answering(first) as (access, sent), asyncio.timeout(120):
        with connect_errors() as heard, pytest.raises(BrokerError, match=said):
            async with connected(AIOKafkaAdminClient, access):
                pass
        assert isinstance(heard.last, AnswerTooLargeError)
        assert sent[0] < MAX_BYTES


async def test_a_broker_that_takes_tls_only_is_named_as_such(guarded: GuardedBroker) -> None:
    with pytest.raises(
        BrokerError, match=f"^{guarded.tls_bootstrap} speaks TLS: set --tls, or name its port"
    ):
        async with connected(AIOKafkaConsumer, BrokerAccess(guarded.tls_bootstrap)):
            pass


async def test_what_brokers_answer_goes_through(broker: Broker) -> None:
    async with connected(AIOKafkaAdminClient, BrokerAccess(broker.bootstrap)) as admin:
        assert isinstance(await admin.list_topics(), list)

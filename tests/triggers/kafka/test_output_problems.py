"""One cluster to write to: what is said while it is away, and that its messages wait."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.wire.produce import WAITING, DeliveryReport, Message
from headrace.triggers.kafka.produce import output_producer
from headrace.triggers.kafka.produce.output_producer import OutputProducer


class Client:
    """A producer that writes all at once."""

    client = SimpleNamespace(
        add_topic=lambda _: None, cluster=SimpleNamespace(available_partitions_for_topic=lambda _: {0})
    )

    async def partitions_for(self, _: str) -> set[int]:
        return {0}

    def create_batch(self) -> SimpleNamespace:
        return SimpleNamespace(append=lambda **_: object())

    async def send_batch(self, *_: object, **__: object) -> "asyncio.Future[Any]":
        written = asyncio.get_running_loop().create_future()
        written.set_result(SimpleNamespace(partition=0, offset=9))
        return written


async def test_a_cluster_that_is_away_is_said_once_and_its_messages_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [KafkaConnectionError(), KafkaConnectionError(), SaslAuthenticationFailed()]
    said: list[list[str]] = []

    async def start(*_: object) -> Client:
        said.append(archive.problems())
        if answers:
            raise answers.pop(0)
        return Client()

    async def discard(_: Client) -> None:
        """Nothing is open."""

    monkeypatch.setattr(output_producer, "start_producer", start)
    monkeypatch.setattr(output_producer, "discard", discard)
    monkeypatch.setattr(output_producer, "_FIRST_RETRY_SECONDS", 0)
    caplog.set_level(logging.INFO)
    archive = OutputProducer(BrokerAccess("archive:1"), "test")
    written: asyncio.Future[DeliveryReport] = asyncio.get_running_loop().create_future()
    archive.produce(
        Message("totals", b"1"), lambda it: None if it.partition == WAITING else written.set_result(it)
    )
    assert await written == DeliveryReport(0, 9)
    assert [[line.split(" at ")[0].split(":")[0] for line in each] for each in said] == [
        [],
        ["no Kafka broker answers"],
        ["no Kafka broker answers"],
        ["archive"],
    ]
    assert archive.problems() == []
    assert [it.levelname for it in caplog.records] == ["WARNING", "WARNING", "INFO"]
    await archive.close()


async def test_one_that_confirms_nothing_any_more_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue()

    class Silent(Client):
        async def send_batch(self, *_: object, **__: object) -> "asyncio.Future[Any]":
            sent.put_nowait(written := asyncio.get_running_loop().create_future())
            return written

    async def start(*_: object) -> Client:
        return Silent()

    monkeypatch.setattr(output_producer, "start_producer", start)
    monkeypatch.setattr(output_producer, "_SILENT_SECONDS", 0)
    archive = OutputProducer(BrokerAccess("archive:1"), "test")
    assert archive.problems() == []
    archive.produce(Message("totals", b"1"), lambda _: None)
    written = await sent.get()
    assert archive.problems() == ["archive:1 has confirmed no message for 0 s"]
    written.set_result(SimpleNamespace(partition=0, offset=9))
    await asyncio.sleep(0)
    assert archive.problems() == []


async def test_closing_gives_up_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = asyncio.Event()

    async def start(*_: object) -> Client:
        tried.set()
        raise KafkaConnectionError

    monkeypatch.setattr(output_producer, "start_producer", start)
    archive = OutputProducer(BrokerAccess("archive:1"), "test")
    ended: list[DeliveryReport] = []
    archive.produce(Message("totals", b"1"), ended.append)
    await tried.wait()
    await archive.close()
    await archive.close()
    assert not [it for it in ended if it.partition != WAITING]

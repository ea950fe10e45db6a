"""Messages on their way, through a client that fails on demand."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest
from aiokafka.errors import (
    KafkaConnectionError,
    OutOfOrderSequenceNumber,
    UnknownTopicOrPartitionError,
)
from aiokafka.producer.message_accumulator import BatchBuilder

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.partitions.books.held import Written
from headrace.runtime.wire.produce import Message
from headrace.triggers.kafka.produce import outputs
from headrace.triggers.kafka.produce.outputs import Outputs


class Where(NamedTuple):
    offset: int


class Client:
    """Has two partitions. Each batch waits to be told what became of it."""

    def __init__(self) -> None:
        self.client = self.cluster = self
        self.batches: list[tuple[int, int, asyncio.Future[Where]]] = []  # partition, messages
        self.is_closed = False
        self.failure: Exception | None = None
        self.is_away = False

    async def force_metadata_update(self) -> bool:
        return not self.is_away

    async def partitions_for(self, _: str) -> set[int]:
        if self.failure:
            raise self.failure
        return {0, 1}

    def available_partitions_for_topic(self, _: str) -> set[int]:
        return {0, 1}

    def create_batch(self) -> Any:
        return BatchBuilder(1000, 0)

    async def send_batch(self, batch: Any, _: str, *, partition: int) -> asyncio.Future[Where]:
        self.batches.append((partition, batch.record_count(), asyncio.get_running_loop().create_future()))
        return self.batches[-1][2]


class Bench:
    """Outputs, and the clients that they have started."""

    def __init__(self) -> None:
        self.clients: list[Client] = []
        self.outputs = Outputs(BrokerAccess("nowhere:9092"), "test")
        self.said: dict[bytes | None, Written] = {}
        self.failure: Exception | None = None
        self.is_away = False

    async def start(self, *_: object) -> Client:
        self.clients.append(Client())
        self.clients[-1].failure, self.clients[-1].is_away = self.failure, self.is_away
        return self.clients[-1]

    async def discard(self, client: Client) -> None:
        client.is_closed = True

    def produce(self, numbers: Iterable[int], partition: int | None = None) -> None:
        for number in numbers:
            value = b"%d" % number
            self.outputs.produce(Message("t", value, partition=partition), self._note(value))

    def _note(self, value: bytes) -> Callable[[Written], None]:
        return lambda written: self.said.update({value: written})

    async def settle(self) -> None:
        for _ in range(20):  # turns of a loop in which nothing waits for anything outside
            await asyncio.sleep(0)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    new = Bench()
    monkeypatch.setattr(outputs, "start_producer", new.start)
    monkeypatch.setattr(outputs, "discard", new.discard)
    return new


async def test_each_message_is_told_where_it_is(bench: Bench) -> None:
    bench.produce(range(3), partition=1)
    await bench.settle()
    [(partition, count, sent)] = bench.clients[0].batches
    assert (partition, count) == (1, 3)
    sent.set_result(Where(10))
    await bench.settle()
    assert bench.said == {b"0": Written(1, 10), b"1": Written(1, 11), b"2": Written(1, 12)}


async def test_a_batch_that_cannot_be_written_fails_its_messages_and_ends_its_producer(bench: Bench) -> None:
    bench.produce(range(2), partition=0)
    bench.produce(range(2, 3), partition=1)
    await bench.settle()
    (*_, first), (*_, second) = bench.clients[0].batches
    first.set_exception(KafkaConnectionError())
    await bench.settle()
    assert not bench.clients[0].is_closed
    assert {it.failure != "" for it in bench.said.values()} == {True}
    second.set_result(Where(0))
    await bench.settle()
    assert bench.said[b"2"] == Written(1, 0)
    assert bench.clients[0].is_closed


async def test_what_fails_only_for_another_batch_is_sent_again_by_the_next_producer(bench: Bench) -> None:
    bench.produce(range(1), partition=0)
    bench.produce(range(1, 3), partition=1)
    await bench.settle()
    (*_, first), (*_, second) = bench.clients[0].batches
    first.set_exception(KafkaConnectionError())
    second.set_exception(OutOfOrderSequenceNumber())
    await bench.settle()
    [(partition, count, again)] = bench.clients[1].batches
    assert (partition, count) == (1, 2)
    again.set_result(Where(5))
    await bench.settle()
    assert [bench.said[it].offset for it in (b"1", b"2")] == [5, 6]
    assert bench.clients[0].is_closed
    assert not bench.clients[1].is_closed


async def test_what_goes_to_a_broker_that_is_away_waits_for_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client says that there is no such topic, after a while, also where it could ask nobody."""
    monkeypatch.setattr(outputs, "_FIRST_RETRY_SECONDS", 0)
    bench.failure, bench.is_away = UnknownTopicOrPartitionError(), True
    bench.produce(range(3))
    await bench.settle()
    assert bench.said == {}
    bench.clients[0].failure = None
    await bench.settle()
    assert [count for _, count, _ in bench.clients[0].batches] == [3]


async def test_a_topic_that_is_not_there_fails_all_that_waits_for_it(bench: Bench) -> None:
    bench.failure = UnknownTopicOrPartitionError()
    bench.produce(range(3))
    await bench.settle()
    assert len(bench.said) == 3
    assert all("there is no topic t" in it.failure for it in bench.said.values())


async def test_a_topic_of_which_nothing_is_known_fails_all_that_waits_for_it(bench: Bench) -> None:
    bench.failure = KafkaConnectionError("no such thing")
    bench.produce(range(3))
    await bench.settle()
    assert len(bench.said) == 3
    assert all("no such thing" in it.failure for it in bench.said.values())

"""Messages on their way, through a client that fails on demand."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest
from aiokafka.errors import (
    InvalidTimestampError,
    KafkaConnectionError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from worker_bench import until

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.wire.produce import WAITING, DeliveryReport, Message
from headrace.triggers.kafka.produce import cluster, output_producer
from headrace.triggers.kafka.produce.output_producer import OutputProducer


class Where(NamedTuple):
    offset: int


class Client:
    """Has two partitions. Each batch waits to be told what became of it."""

    def __init__(self) -> None:
        self.client = self.cluster = self
        self.batches: list[tuple[int, int, asyncio.Future[Where]]] = []  # partition, messages
        self.values: list[list[bytes]] = []  # of each of these
        self.is_closed = False
        self.asked = 0
        self.failure: Exception | None = None
        self.is_away = False

    async def force_metadata_update(self) -> bool:
        return not self.is_away

    def add_topic(self, _: str) -> None:
        """It has no others."""

    async def partitions_for(self, _: str) -> set[int]:
        self.asked += 1
        if self.failure:
            raise self.failure
        return {0, 1}

    def available_partitions_for_topic(self, _: str) -> set[int]:
        return {0, 1}

    def create_batch(self) -> Any:
        return BatchBuilder(1000, 0)

    async def send_batch(self, batch: Any, _: str, *, partition: int) -> asyncio.Future[Where]:
        self.batches.append((partition, batch.record_count(), asyncio.get_running_loop().create_future()))
        self.values.append([it.value for it in MemoryRecords(bytes(batch._build())).next_batch()])
        return self.batches[-1][2]


class Bench:
    """OutputProducer, and the clients that they have started."""

    def __init__(self) -> None:
        self.clients: list[Client] = []
        self.outputs = OutputProducer(BrokerAccess("nowhere:9092"), "test")
        self.said: dict[bytes | None, DeliveryReport] = {}
        self.waiting: set[bytes] = set()
        self.failure: Exception | None = None
        self.is_away = False

    async def start(self, *_: object) -> Client:
        self.clients.append(Client())
        self.clients[-1].failure, self.clients[-1].is_away = self.failure, self.is_away
        return self.clients[-1]

    async def discard(self, client: Client) -> None:
        client.is_closed = True

    def produce(
        self, numbers: Iterable[int], partition: int | None = None, width: int = 1, topic: str = "t"
    ) -> None:
        for number in numbers:
            value = b"%0*d" % (width, number)
            self.outputs.produce(Message(topic, value, partition=partition), self._note(value))

    def _note(self, value: bytes) -> Callable[[DeliveryReport], None]:
        def note(written: DeliveryReport) -> None:
            if written.partition == WAITING:
                self.waiting.add(value)
            else:
                self.said[value] = written

        return note

    async def settle(self) -> None:
        for _ in range(20):  # turns of a loop in which nothing waits for anything outside
            await asyncio.sleep(0)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    new = Bench()
    monkeypatch.setattr(output_producer, "start_producer", new.start)
    monkeypatch.setattr(output_producer, "discard", new.discard)
    monkeypatch.setattr(cluster, "_FIRST_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(cluster, "_MAX_RETRY_SECONDS", 0.05)
    return new


async def test_each_message_is_told_where_it_is(bench: Bench) -> None:
    bench.produce(range(3), partition=1)
    await bench.settle()
    [(partition, count, sent)] = bench.clients[0].batches
    assert (partition, count) == (1, 3)
    sent.set_result(Where(10))
    await bench.settle()
    assert bench.said == {
        b"0": DeliveryReport(1, 10),
        b"1": DeliveryReport(1, 11),
        b"2": DeliveryReport(1, 12),
    }


async def test_a_message_that_cannot_be_written_fails_and_ends_its_producer(bench: Bench) -> None:
    bench.produce(range(1), partition=0)
    bench.produce(range(2, 3), partition=1)
    await bench.settle()
    (*_, first), (*_, second) = bench.clients[0].batches
    first.set_exception(MessageSizeTooLargeError())
    await bench.settle()
    assert not bench.clients[0].is_closed
    assert {it.failure != "" for it in bench.said.values()} == {True}
    second.set_result(Where(0))
    await bench.settle()
    assert bench.said[b"2"] == DeliveryReport(1, 0)
    assert bench.clients[0].is_closed


async def test_what_fails_only_for_another_batch_is_sent_again_by_the_next_producer(bench: Bench) -> None:
    bench.produce(range(1), partition=0)
    bench.produce(range(1, 3), partition=1)
    await bench.settle()
    (*_, first), (*_, second) = bench.clients[0].batches
    first.set_exception(MessageSizeTooLargeError())
    second.set_exception(OutOfOrderSequenceNumber())
    await bench.settle()
    [(partition, count, again)] = bench.clients[1].batches
    assert (partition, count) == (1, 2)
    again.set_result(Where(5))
    await bench.settle()
    assert [bench.said[it].offset for it in (b"1", b"2")] == [5, 6]
    assert bench.clients[0].is_closed
    assert not bench.clients[1].is_closed


def end(sent: "asyncio.Future[Where]", error: Exception | None, offset: int = 0) -> None:
    if error is None:
        sent.set_result(Where(offset))
    else:
        sent.set_exception(error)


async def test_a_batch_that_is_too_large_goes_in_halves_and_what_came_after_it_goes_after_it(
    bench: Bench,
) -> None:
    bench.produce(range(8), partition=0, width=100)
    await bench.settle()
    bench.produce(range(8, 10), partition=0, width=100)
    await bench.settle()
    first, behind = (sent for *_, sent in bench.clients[0].batches)
    end(first, MessageSizeTooLargeError())
    await bench.settle()
    # What is behind it may come back, and then goes before what comes now.
    assert not any(client.batches for client in bench.clients[1:])
    bench.produce(range(10, 11), partition=0, width=100)
    end(behind, OutOfOrderSequenceNumber())
    await bench.settle()
    values = bench.clients[1].values
    assert [int(value) for batch in values for value in batch] == [*range(11)]
    assert [len(batch) for batch in values] == [3, 3, 3, 2]
    for *_, sent in bench.clients[1].batches:
        end(sent, None)
    await bench.settle()
    assert len(bench.said) == 11
    assert not any(it.failure for it in bench.said.values())


async def test_only_the_message_that_is_too_large_alone_has_failed(bench: Bench) -> None:
    bench.produce(range(5), partition=0)
    for at in range(20):
        await bench.settle()
        if len(bench.clients) == at:
            break
        is_refused = False
        for values, (*_, sent) in zip(bench.clients[at].values, bench.clients[at].batches, strict=True):
            error = MessageSizeTooLargeError() if b"3" in values else None
            end(sent, OutOfOrderSequenceNumber() if is_refused else error)
            is_refused = is_refused or error is not None
    assert {value: "takes no message of" in it.failure for value, it in bench.said.items()} == {
        b"0": False,
        b"1": False,
        b"2": False,
        b"3": True,
        b"4": False,
    }


async def test_of_a_batch_that_is_refused_for_one_message_each_goes_alone(bench: Bench) -> None:
    bench.produce(range(4), partition=0)
    await bench.settle()
    ((*_, sent),) = bench.clients[0].batches
    end(sent, InvalidTimestampError())
    await bench.settle()
    assert bench.clients[1].values == [[b"0"], [b"1"], [b"2"], [b"3"]]
    for number, (*_, sent) in enumerate(bench.clients[1].batches):
        end(
            sent,
            [None, InvalidTimestampError(), OutOfOrderSequenceNumber(), OutOfOrderSequenceNumber()][number],
        )
    await bench.settle()
    assert bench.clients[2].values == [[b"2", b"3"]]
    for *_, sent in bench.clients[2].batches:
        end(sent, None)
    await bench.settle()
    assert [value for value, it in bench.said.items() if it.failure] == [b"1"]
    bench.produce(range(5, 8), partition=0)
    await bench.settle()
    assert bench.clients[2].values[1:] == [[b"5", b"6", b"7"]]


async def test_a_message_for_a_partition_that_is_not_there_fails_alone(bench: Bench) -> None:
    bench.produce(range(1), partition=9)
    bench.produce(range(1, 2), partition=0)
    await bench.settle()
    assert bench.said[b"0"].failure == "topic t at nowhere:9092 has no partition 9"
    assert bench.clients[0].values == [[b"1"]]
    assert len(bench.clients) == 1


async def test_what_goes_to_a_broker_that_is_away_waits_for_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client says that there is no such topic, after a while, also where it could ask nobody."""
    monkeypatch.setattr(output_producer, "_FIRST_RETRY_SECONDS", 0)
    bench.failure, bench.is_away = UnknownTopicOrPartitionError(), True
    bench.produce(range(3))
    await bench.settle()
    assert bench.said == {}
    bench.clients[0].failure = None
    await bench.settle()
    assert [count for _, count, _ in bench.clients[0].batches] == [3]


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (UnknownTopicOrPartitionError(), "there is no topic t at nowhere:9092"),
        (TopicAuthorizationFailedError(), "nowhere:9092 does not let this user write to topic t"),
        (KafkaConnectionError(), "topic t at nowhere:9092 takes no messages (KafkaConnectionError)"),
    ],
)
async def test_messages_for_a_topic_that_takes_none_wait_for_it_said_once(
    bench: Bench, failure: Exception, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench.failure = failure
    bench.produce(range(3), partition=0)
    await until(lambda: len(bench.clients) == 1 and bench.clients[0].asked > 3)
    assert bench.waiting == {b"0", b"1", b"2"}
    assert [line in it for it in bench.outputs.problems()] == [True]
    bench.produce(range(3, 4), partition=0)
    await bench.settle()
    assert bench.waiting == {b"0", b"1", b"2", b"3"}
    assert [it.getMessage().startswith(line) for it in caplog.records if it.levelno >= logging.WARNING] == [
        True
    ]
    bench.clients[0].failure = None
    await until(lambda: bench.clients[0].batches)
    ((*_, sent),) = bench.clients[0].batches
    end(sent, None, 7)
    await bench.settle()
    assert bench.said == {b"%d" % n: DeliveryReport(0, 7 + n) for n in range(4)}
    assert bench.outputs.problems() == []


async def test_a_topic_that_takes_nothing_any_more_amid_others_holds_up_only_its_own(bench: Bench) -> None:
    bench.produce(range(2), partition=0)
    await bench.settle()
    ((*_, sent),) = bench.clients[0].batches
    end(sent, TopicAuthorizationFailedError())
    await bench.settle()
    assert bench.waiting == {b"0", b"1"}
    bench.produce(range(2, 3), partition=0, topic="u")
    await bench.settle()
    assert bench.clients[1].values == [[b"2"]]
    end(bench.clients[1].batches[0][2], None, 4)
    await bench.settle()
    assert bench.said == {b"2": DeliveryReport(0, 4)}
    await until(lambda: bench.clients[1].values[1:] == [[b"0", b"1"]])


async def test_messages_that_nobody_confirms_for_a_while_wait(bench: Bench) -> None:
    bench.produce(range(5), partition=0, width=600)  # of which a batch takes one
    await until(lambda: len(bench.waiting) == 5)
    bench.produce(range(5, 6), partition=1)
    await until(lambda: len(bench.waiting) == 6)
    assert bench.said == {}
    for *_, sent in bench.clients[0].batches:
        end(sent, None, 7)
    await bench.settle()
    assert set(bench.said.values()) == {DeliveryReport(0, 7), DeliveryReport(1, 7)}
    assert len(bench.said) == 6


async def test_what_no_topic_can_be_named_fails_its_message_alone(bench: Bench) -> None:
    bench.produce(range(1), topic="no/topic")
    bench.produce(range(1, 2), partition=1)
    await bench.settle()
    assert "'no/topic' is no topic name" in bench.said[b"0"].failure
    assert bench.clients[0].values == [[b"1"]]

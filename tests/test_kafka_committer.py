"""Commits: under their own generation, or not at all."""

import asyncio

import pytest
from aiokafka import TopicPartition
from worker_bench import records

from headrace.runtime.metrics import Metrics, TriggerMetrics
from headrace.runtime.partition import AssignedPartition
from headrace.triggers.kafka_committer import Committer
from headrace.triggers.kafka_metadata import CommitMetadata
from headrace.triggers.kafka_start import Starts

TP = TopicPartition("t", 0)


class Coordinator:
    generation = 1


class Consumer:
    """Holds what was committed; a commit ends when `may_answer` is set."""

    def __init__(self) -> None:
        self._coordinator = Coordinator()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.commits: list[dict[TopicPartition, tuple[int, str]]] = []

    async def commit(self, offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        await self.may_answer.wait()
        self.commits.append(offsets)


@pytest.fixture
def consumer() -> Consumer:
    return Consumer()


@pytest.fixture
def committer(consumer: Consumer) -> Committer:
    metrics = TriggerMetrics(Metrics(), "", "f", "kafka-cluster", "t")
    return Committer(consumer, metrics)


def handled(count: int) -> AssignedPartition:
    partition = AssignedPartition("t", 0, 0, 256)
    partition.fetched(records(0, count))
    partition.settled(partition.take(count, 1 << 20))
    return partition


def starts() -> Starts:
    return Starts({TP: 0}, {}, {"t": CommitMetadata(8)})


async def test_what_has_moved_is_committed_once_with_its_metadata(
    consumer: Consumer, committer: Committer
) -> None:
    committer.open(starts(), generation=1)
    partition = handled(5)
    await committer.commit([partition], 5)
    await committer.commit([partition], 5)
    assert consumer.commits == [{TP: (5, "headrace/1 n=8")}]
    assert committer.committed(partition) == 5


async def test_nothing_is_committed_under_another_generation(
    consumer: Consumer, committer: Committer
) -> None:
    committer.open(starts(), generation=1)
    consumer._coordinator.generation = 2
    await committer.commit([handled(5)], 5)
    consumer._coordinator.generation = -1
    await committer.commit([handled(5)], 5)
    assert consumer.commits == []


async def test_a_closed_gate_lets_nothing_through(consumer: Consumer, committer: Committer) -> None:
    committer.open(starts(), generation=1)
    committer.close()
    await committer.commit([handled(5)], 5)
    consumer._coordinator.generation = -1
    committer.open(starts(), generation=-1)  # the membership was lost while the assignment began
    await committer.commit([handled(5)], 5)
    assert consumer.commits == []


async def test_a_broker_that_does_not_answer_holds_nobody_up(
    consumer: Consumer, committer: Committer
) -> None:
    committer.open(starts(), generation=1)
    consumer.may_answer.clear()
    partition = handled(5)
    await committer.commit([partition], 0.05)
    assert committer.committed(partition) is None
    consumer.may_answer.set()
    await committer.commit([partition], 5)
    assert consumer.commits == [{TP: (5, "headrace/1 n=8")}]

"""Commits: under their own generation, or not at all."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    OffsetMetadataTooLargeError,
    UnknownTopicOrPartitionError,
)
from broker import Broker, embedded

from headrace.runtime.embedded.kafka import broker as embedded_kafka
from headrace.runtime.embedded.kafka.properties import broker_settings
from headrace.runtime.metrics import Metrics, TriggerMetrics
from headrace.runtime.partitions.checkpoint import Checkpoint, Plan
from headrace.runtime.partitions.checkpoint_text import CheckpointText, decode_text
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.committer import Committer
from headrace.triggers.kafka.client.commits import (
    PartitionsRefusedError,
    fetch_commits,
    tell_partitions_apart,
)
from headrace.triggers.kafka.client.internals import generation
from headrace.triggers.kafka.group_offsets import GroupOffsets
from headrace.triggers.kafka.start import GroupTopics

TP = TopicPartition("t", 0)
KEY = PartitionKey("t", 0)


@dataclass
class Partition:
    """What a committer reads of an assigned partition."""

    topic: str
    partition: int
    checkpoint: Checkpoint

    @property
    def key(self) -> PartitionKey:
        return PartitionKey(self.topic, self.partition)


class Coordinator:
    generation = 1


class Consumer:
    """Holds what was committed; a commit ends when `may_answer` is set, or is refused."""

    def __init__(self) -> None:
        self._coordinator = Coordinator()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.refusal: KafkaError | None = None
        self.max_chars = 4096
        self.refused: set[TopicPartition] = set()
        self.commits: list[dict[TopicPartition, tuple[int, str]]] = []
        self.was_asked, self.asked = asyncio.Event(), 0

    async def commit(self, offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        self.asked += 1
        self.was_asked.set()
        await self.may_answer.wait()
        if self.refusal is not None:
            raise self.refusal
        if any(len(metadata) > self.max_chars for _, metadata in offsets.values()):
            raise OffsetMetadataTooLargeError
        self.commits.append({tp: offset for tp, offset in offsets.items() if tp not in self.refused})
        if errors := {tp: UnknownTopicOrPartitionError() for tp in offsets if tp in self.refused}:
            raise PartitionsRefusedError(errors)


@pytest.fixture
def consumer() -> Consumer:
    return Consumer()


@pytest.fixture
def committer(consumer: Consumer) -> Committer:
    return Committer(group_offsets(consumer, "t"), trigger_metrics())


def group_offsets(consumer: object, *topics: str) -> GroupOffsets:
    offsets = GroupOffsets(consumer)
    offsets.topics = GroupTopics(first_partition_counts=dict.fromkeys(topics, 8))
    return offsets


def trigger_metrics() -> TriggerMetrics:
    return TriggerMetrics(Metrics(), "", "f", "kafka-cluster", "t")


def handled(count: int) -> Partition:
    return Partition("t", 0, Checkpoint(count))


def scattered(count: int, offset: int = 0) -> Checkpoint:
    """Acked runs that take about 4 characters each."""
    return Checkpoint(
        offset, acked=tuple((offset + 50 * n, offset + 50 * n + 2) for n in range(1, count + 1))
    )


def decoded(commit: tuple[int, str]) -> Checkpoint:
    metadata = decode_text(*commit)
    assert metadata is not None
    return metadata.checkpoint


async def test_what_has_moved_is_committed_once_with_its_metadata(
    consumer: Consumer, committer: Committer
) -> None:
    committer.open([KEY], {}, generation=1)
    partition = handled(5)
    assert await committer.commit([partition], 5)
    assert await committer.commit([partition], 5)
    assert consumer.commits == [{TP: (5, "headrace/1 n=8")}]
    assert committer.committed(partition.key) == 5


async def test_nothing_is_committed_under_another_generation(
    consumer: Consumer, committer: Committer
) -> None:
    committer.open([KEY], {}, generation=1)
    consumer._coordinator.generation = 2
    assert not await committer.commit([handled(5)], 5)
    consumer._coordinator.generation = -1
    assert not await committer.commit([handled(5)], 5)
    assert consumer.commits == []


async def test_a_closed_gate_lets_nothing_through(consumer: Consumer, committer: Committer) -> None:
    committer.open([KEY], {}, generation=1)
    committer.close()
    assert not await committer.commit([handled(5)], 5)
    consumer._coordinator.generation = -1
    committer.open([KEY], {}, generation=-1)  # the membership was lost while the assignment began
    assert not await committer.commit([handled(5)], 5)
    assert consumer.commits == []


async def test_a_broker_that_does_not_answer_holds_nobody_up(
    consumer: Consumer, committer: Committer
) -> None:
    committer.open([KEY], {}, generation=1)
    consumer.may_answer.clear()
    partition = handled(5)
    assert not await committer.commit([partition], 0.05)
    assert committer.committed(partition.key) is None
    consumer.may_answer.set()
    await committer.commit([partition], 5)
    assert consumer.commits == [{TP: (5, "headrace/1 n=8")}]


async def test_attempts_plan_and_acks_are_committed_when_only_they_change(
    consumer: Consumer, committer: Committer
) -> None:
    committer.open([KEY], {KEY: Checkpoint(5)}, generation=1)
    partition = handled(5)
    assert await committer.commit([partition], 5)
    assert consumer.commits == []
    for now in (
        Checkpoint(5, attempts=((5, 6, 1),)),
        Checkpoint(5, attempts=((5, 6, 1),), plan=Plan(5, 9)),
        Checkpoint(5, acked=((7, 9),)),
        Checkpoint(5),
    ):
        partition.checkpoint = now
        assert await committer.commit([partition], 5)
        assert decoded(consumer.commits[-1][TP]) == now


async def test_a_commit_never_moves_back(
    consumer: Consumer, committer: Committer, caplog: pytest.LogCaptureFixture
) -> None:
    committer.open([KEY], {}, generation=1)
    await committer.commit([handled(5)], 5)
    assert not await committer.commit([handled(4)], 5)
    assert not await committer.commit([handled(3)], 5)
    assert [commit[TP][0] for commit in consumer.commits] == [5]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "t/0: the commit stays at offset 5" in caplog.text


async def test_a_partition_whose_log_was_replaced_may_start_below_its_last_commit(
    consumer: Consumer, committer: Committer
) -> None:
    committer.open([KEY], {}, generation=1)
    await committer.commit([handled(5)], 5)
    await committer.mark_stale(KEY)
    assert committer.committed(handled(0).key) is None
    assert await committer.commit([handled(0)], 5)
    assert consumer.commits[-1][TP][0] == 0


async def test_after_a_failure_what_the_broker_holds_is_in_doubt(
    consumer: Consumer, committer: Committer
) -> None:
    """A plan was sent, its answer lost; the plan is withdrawn: the broker has to be told."""
    committer.open([KEY], {KEY: Checkpoint(5)}, generation=1)
    consumer.refusal = GroupAuthorizationFailedError()
    assert not await committer.commit([Partition("t", 0, Checkpoint(5, plan=Plan(5, 9)))], 5)
    consumer.refusal = None
    assert await committer.commit([handled(5)], 5)
    assert consumer.commits == [{TP: (5, "headrace/1 n=8")}]


async def test_a_commit_that_comes_too_late_is_one_line(
    consumer: Consumer, committer: Committer, caplog: pytest.LogCaptureFixture
) -> None:
    """The client's text is ten lines about a poll loop, which isn't ours."""
    committer.open([KEY], {}, generation=1)
    consumer.refusal = CommitFailedError("Commit cannot be completed")
    assert not await committer.commit([handled(5)], 5)
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "a commit failed (the group has gone on without this replica): what"
    )


async def test_too_much_metadata_is_committed_again_with_less_and_the_limit_is_remembered(
    consumer: Consumer, committer: Committer, caplog: pytest.LogCaptureFixture
) -> None:
    committer.open([KEY], {}, generation=1)
    told = scattered(3000)
    assert await committer.commit([Partition("t", 0, told)], 5)
    kept = decoded(consumer.commits[-1][TP])
    assert 800 < len(kept.acked) < 3000
    assert kept.acked == told.acked[: len(kept.acked)]
    assert "offset.metadata.max.bytes" in caplog.text
    consumer.max_chars = 10**6  # it would take more now
    assert await committer.commit([Partition("t", 0, scattered(3000, 10))], 5)
    assert len(decoded(consumer.commits[-1][TP]).acked) == len(kept.acked)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("max_chars", [0, 14, 40])
async def test_a_broker_that_takes_hardly_any_metadata_still_gets_the_offset(
    consumer: Consumer, committer: Committer, max_chars: int
) -> None:
    committer.open([KEY], {}, generation=1)
    consumer.max_chars = max_chars
    assert await committer.commit([Partition("t", 0, scattered(3000))], 5)
    [(offset, text)] = consumer.commits[-1].values()
    assert (offset, text[:14]) == (0, "headrace/1 n=8"[:max_chars])


async def test_attempts_that_do_not_fit_hold_nothing_up(consumer: Consumer, committer: Committer) -> None:
    committer.open([KEY], {}, generation=1)
    consumer.max_chars = 20
    partition = Partition("t", 0, Checkpoint(5, attempts=((5, 6, 1),)))
    assert await committer.commit([partition], 5)
    assert await committer.commit([handled(6)], 5)
    assert [offset for commit in consumer.commits for offset, _ in commit.values()] == [5, 6]


async def test_commits_of_many_partitions_are_sent_in_requests_that_a_broker_can_write(
    consumer: Consumer, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GroupOffsets, "max_request_chars", 10_000)
    committer.open([KEY], {}, generation=1)
    partitions = [Partition("t", number, scattered(500)) for number in range(9)]
    assert await committer.commit(partitions, 5)
    assert [len(commit) for commit in consumer.commits] == [3, 3, 3]
    told = {tp.partition: decoded(text) for commit in consumer.commits for tp, text in commit.items()}
    assert told == {partition.partition: partition.checkpoint for partition in partitions}


async def test_no_request_is_sent_after_the_membership_was_lost_between_two(
    consumer: Consumer, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GroupOffsets, "max_request_chars", 10)
    commit = consumer.commit

    async def commit_and_lose(offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        await commit(offsets)
        consumer._coordinator.generation = -1

    monkeypatch.setattr(consumer, "commit", commit_and_lose)
    committer.open([KEY], {}, generation=1)
    assert not await committer.commit([Partition("t", number, Checkpoint(5)) for number in (0, 1)], 5)
    assert consumer.commits == [{TP: (5, "headrace/1 n=8")}]


async def test_a_partition_whose_commit_is_refused_leaves_the_others_committed(
    consumer: Consumer, committer: Committer, caplog: pytest.LogCaptureFixture
) -> None:
    other = Partition("t", 1, Checkpoint(5))
    committer.open([KEY, other.key], {}, generation=1)
    consumer.refused = {TP}
    for _ in range(2):
        assert not await committer.commit([handled(5), other], 5)
        assert await committer.commit([other], 5)
    assert consumer.commits == [{TopicPartition("t", 1): (5, "headrace/1 n=8")}, {}]
    assert (committer.committed(KEY), committer.committed(other.key)) == (None, 5)
    (record,) = caplog.records
    assert "t/0" in record.getMessage()
    consumer.refused = set()
    assert await committer.commit([handled(5), other], 5)
    assert committer.committed(KEY) == 5


async def test_commits_wait_for_each_other(consumer: Consumer, committer: Committer) -> None:
    """Else an older one might arrive after a newer one, and the committed offset moves back."""
    committer.open([KEY], {}, generation=1)
    partition = handled(5)
    consumer.may_answer.clear()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(committer.commit([partition], 60))
        await consumer.was_asked.wait()
        consumer.was_asked.clear()
        partition.checkpoint = Checkpoint(7)
        second = tasks.create_task(committer.commit([partition], 60))
        for _ in range(10):  # as far as it gets
            await asyncio.sleep(0)
        assert not consumer.was_asked.is_set()
        consumer.may_answer.set()
    assert first.result()
    assert second.result()
    assert [commit[TP][0] for commit in consumer.commits] == [5, 7]


async def test_a_log_that_is_replaced_amid_a_commit_may_start_below_it_all_the_same(
    consumer: Consumer, committer: Committer, caplog: pytest.LogCaptureFixture
) -> None:
    committer.open([KEY], {}, generation=1)
    consumer.may_answer.clear()
    async with asyncio.TaskGroup() as tasks:
        under_way = tasks.create_task(committer.commit([handled(5)], 60))
        await consumer.was_asked.wait()
        replaced = tasks.create_task(committer.mark_stale(KEY))
        for _ in range(10):  # as far as it gets
            await asyncio.sleep(0)
        assert not replaced.done()
        consumer.may_answer.set()
    assert under_way.result()
    assert committer.committed(KEY) is None
    assert await committer.commit([handled(0)], 5)
    assert [commit[TP][0] for commit in consumer.commits] == [5, 0]
    assert not caplog.records


async def test_a_replaced_log_whose_offset_is_the_same_is_committed_again(
    consumer: Consumer, committer: Committer
) -> None:
    """What was committed of the old one is gone with it."""
    committer.open([KEY], {}, generation=1)
    for _ in range(2):
        assert await committer.commit([handled(5)], 5)
        await committer.mark_stale(KEY)
    assert len(consumer.commits) == 2


@pytest.mark.timeout(60)
async def test_a_broker_that_refuses_even_empty_metadata_is_asked_once_more_by_each_commit_and_no_oftener(
    consumer: Consumer, committer: Committer, caplog: pytest.LogCaptureFixture
) -> None:
    committer.open([KEY], {}, generation=1)
    consumer.max_chars = -1
    assert not await committer.commit([Partition("t", 0, scattered(3000))], 5)
    asked = consumer.asked
    assert asked < 20  # it was halved
    assert not await committer.commit([handled(5)], 5)
    assert consumer.asked == asked + 1
    assert caplog.text.count("a commit failed") == 2
    consumer.max_chars = 0
    assert await committer.commit([handled(5)], 5)
    assert consumer.commits == [{TP: (5, "")}]


async def test_commits_are_counted_by_what_became_of_them(consumer: Consumer) -> None:
    metrics = trigger_metrics()
    committer = Committer(group_offsets(consumer, "t"), metrics)

    def counts() -> tuple[float, float]:
        return metrics.commits_done._value.get(), metrics.commits_failed._value.get()

    committer.open([KEY], {}, generation=1)
    assert await committer.commit([handled(5)], 5)
    assert counts() == (1, 0)
    assert await committer.commit([handled(5)], 5)  # there is nothing to commit
    assert counts() == (1, 0)
    consumer.refusal = GroupAuthorizationFailedError()
    assert not await committer.commit([handled(6)], 5)
    assert counts() == (1, 1)
    consumer.refusal = None
    consumer.may_answer.clear()
    assert not await committer.commit([handled(6)], 0.05)
    assert counts() == (1, 2)
    consumer.may_answer.set()
    consumer.max_chars = 20  # the first request is refused, the second is not
    assert await committer.commit([Partition("t", 0, scattered(100, 6))], 5)
    assert counts() == (2, 2)
    consumer.max_chars = -1
    assert not await committer.commit([handled(7)], 5)
    assert counts() == (2, 3)


# ---- against a broker


@asynccontextmanager
async def member(bootstrap: str, *topics: str) -> AsyncIterator[tuple[Committer, AIOKafkaAdminClient]]:
    """A committer whose gate is open, of a group named as the first topic."""
    consumer = AIOKafkaConsumer(
        *topics, bootstrap_servers=bootstrap, group_id=topics[0], enable_auto_commit=False
    )
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await consumer.start()
    await admin.start()
    tell_partitions_apart(consumer)
    try:
        committer = Committer(group_offsets(consumer, *topics), trigger_metrics())
        committer.open([], {}, generation(consumer))
        yield committer, admin
    finally:
        await admin.close()
        await consumer.stop()


async def held(admin: AIOKafkaAdminClient, topic: str, partition: int) -> CheckpointText | None:
    tp = TopicPartition(topic, partition)
    commit = (await fetch_commits(admin, topic, [tp]))[tp]
    return decode_text(commit.offset, commit.metadata)


async def test_what_a_broker_takes_is_what_it_gives_back(broker: Broker, topic: str) -> None:
    async with member(broker.bootstrap, topic) as (committer, admin):
        small = Checkpoint(5, attempts=((5, 6, 1), (9, 10, 2)), plan=Plan(5, 12), acked=((20, 30), (40, 41)))
        assert await committer.commit([Partition(topic, 0, small), Partition(topic, 1, scattered(3000))], 10)
        assert await held(admin, topic, 0) == CheckpointText(8, small)
        large = await held(admin, topic, 1)
        assert large is not None
        assert 800 < len(large.checkpoint.acked) < 3000
        assert large.checkpoint.acked == scattered(3000).acked[: len(large.checkpoint.acked)]


async def test_all_partitions_may_have_as_much_to_say_as_a_broker_takes(broker: Broker) -> None:
    topic = broker.create_topic(300)
    async with member(broker.bootstrap, topic) as (committer, admin):
        assert await committer.commit([Partition(topic, n, scattered(3000)) for n in range(300)], 30)
        last = await held(admin, topic, 299)
        assert last is not None
        assert len(last.checkpoint.acked) > 800


@pytest.fixture
def thrifty(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a broker that takes 100 bytes of metadata."""
    few = {"offset.metadata.max.bytes": "100"}
    monkeypatch.setattr(embedded_kafka, "broker_settings", lambda *given: broker_settings(*given) | few)
    with embedded(t=1) as kafka:
        yield kafka.bootstrap


async def test_a_broker_with_little_room_gets_what_fits(thrifty: str) -> None:
    async with member(thrifty, "t") as (committer, admin):
        told = Checkpoint(5, attempts=((5, 6, 1),), plan=Plan(5, 9), acked=scattered(100, 5).acked)
        assert await committer.commit([Partition("t", 0, told)], 10)
        kept = await held(admin, "t", 0)
        assert kept is not None
        assert kept.checkpoint == Checkpoint(
            5, told.attempts, told.plan, told.acked[: len(kept.checkpoint.acked)]
        )
        assert kept.checkpoint.acked


async def test_a_broker_refuses_the_commit_of_a_deleted_topic_and_takes_the_others(broker: Broker) -> None:
    kept, gone = broker.create_topic(1), broker.create_topic(1)
    async with member(broker.bootstrap, kept, gone) as (committer, admin):
        await admin.delete_topics([gone])
        both = [Partition(topic, 0, Checkpoint(0)) for topic in (gone, kept)]
        while await committer.commit(both, 30):  # the broker hears of it a moment later
            await committer.mark_stale(both[0].key)
        assert committer.committed(both[1].key) == 0

"""What commits do where a broker fails, refuses, or has room for less than there is to say."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
)
from broker import Broker, embedded
from committing import (
    KEY,
    TP,
    Consumer,
    Partition,
    decoded,
    group_offsets,
    handled,
    held,
    member,
    scattered,
    trigger_metrics,
)

from headrace.runtime.embedded.kafka import broker as embedded_kafka
from headrace.runtime.embedded.kafka.properties import broker_settings
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.streams.committer import Committer
from headrace.triggers.kafka.client.commits import tell_partitions_apart, unanswered_at
from headrace.triggers.kafka.group.offsets import GroupOffsets


@pytest.fixture
def consumer() -> Consumer:
    return Consumer()


@pytest.fixture
def committer(consumer: Consumer) -> Committer:
    return Committer(group_offsets(consumer, "t"), trigger_metrics())


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
    assert consumer.commits == [{TP: (5, "headrace/1 n=8 .")}]


async def test_who_waits_behind_a_commit_without_an_answer_waits_no_longer_than_it_said(
    consumer: Consumer, committer: Committer
) -> None:
    committer.open([KEY], {}, generation=1)
    consumer.may_answer.clear()
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(5):
        first = tasks.create_task(committer.commit([handled(5)], 60))
        await consumer.was_asked.wait()
        assert not await committer.commit([handled(6)], 0.05)
        consumer.may_answer.set()
    assert first.result()


async def test_after_a_failure_what_the_broker_holds_is_in_doubt(
    consumer: Consumer, committer: Committer
) -> None:
    """A plan was sent, its answer lost; the plan is withdrawn: the broker has to be told."""
    committer.open([KEY], {KEY: Checkpoint(5)}, generation=1)
    consumer.refusal = GroupAuthorizationFailedError()
    assert not await committer.commit([Partition("t", 0, Checkpoint(5, plan=PlannedBatches(5, 9)))], 5)
    consumer.refusal = None
    assert await committer.commit([handled(5)], 5)
    assert consumer.commits == [{TP: (5, "headrace/1 n=8 .")}]


async def test_after_a_request_without_an_answer_all_is_said_again_for_a_while(
    consumer: Consumer, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That request may come behind later ones, and move them back."""
    committer.open([KEY], {}, generation=1)
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for seconds, said in ((0, 1), (0.5, 1), (1, 2), (1.5, 2), (59, 3), (61, 3), (90, 3)):
        now = 1000.0 + seconds
        monkeypatch.setattr(GroupOffsets, "unanswered_at", 1000.0)
        assert await committer.commit([handled(5)], 5)
        assert len(consumer.commits) == said, seconds


class _Silent:
    """A coordinator's side of a client, on a connection that breaks."""

    async def _do_commit_offsets(self, _assignment: object, _offsets: object) -> None:
        await self._send_req(object())

    async def _send_req(self, _request: object) -> None:
        raise KafkaConnectionError("the connection is gone")


async def test_a_commit_that_got_no_answer_is_noted() -> None:
    """aiokafka sends it again, and says nothing of it."""
    consumer = SimpleNamespace(_coordinator=_Silent())
    tell_partitions_apart(consumer)
    assert unanswered_at(consumer) == -inf
    with pytest.raises(KafkaConnectionError):
        await consumer._coordinator._do_commit_offsets(None, {})
    assert unanswered_at(consumer) <= time.monotonic()
    assert unanswered_at(consumer) > 0


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


async def test_a_text_too_long_takes_nothing_from_others_that_fitted(
    consumer: Consumer, committer: Committer
) -> None:
    """Half of what was refused would be less than what the broker has taken."""
    other = Partition("t", 1, scattered(12))
    committer.open([KEY, other.key], {}, generation=1)
    consumer.max_chars = 100
    assert await committer.commit([other], 5)
    before = decoded(consumer.commits[-1][TopicPartition(*other.key)])
    assert before.acked == other.checkpoint.acked
    assert await committer.commit([Partition("t", 0, scattered(3000))], 5)
    other.checkpoint = replace(other.checkpoint, acked=(*other.checkpoint.acked, (1000, 1001)))
    assert await committer.commit([other], 5)
    assert {*before.acked} <= {*decoded(consumer.commits[-1][TopicPartition(*other.key)]).acked}


async def test_what_is_sent_again_with_less_is_what_is_so_by_then(
    consumer: Consumer, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message of a settled record is refused between the two: the record is open again."""
    committer.open([KEY], {}, generation=1)
    partition = Partition("t", 0, scattered(3000, 7))
    commit = consumer.commit

    async def refuse_once(offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        partition.checkpoint = scattered(3000, 5)
        await commit(offsets)

    monkeypatch.setattr(consumer, "commit", refuse_once)
    assert await committer.commit([partition], 5)
    assert [offset for said in consumer.commits for offset, _ in said.values()] == [5]


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
    assert consumer.commits == [{TP: (5, "headrace/1 n=8 .")}]


async def test_a_partition_whose_commit_is_refused_leaves_the_others_committed(
    consumer: Consumer, committer: Committer, caplog: pytest.LogCaptureFixture
) -> None:
    other = Partition("t", 1, Checkpoint(5))
    committer.open([KEY, other.key], {}, generation=1)
    consumer.refused = {TP}
    for _ in range(2):
        assert not await committer.commit([handled(5), other], 5)
        assert await committer.commit([other], 5)
    assert consumer.commits == [{TopicPartition("t", 1): (5, "headrace/1 n=8 .")}, {}]
    assert (committer.committed(KEY), committer.committed(other.key)) == (None, 5)
    (record,) = caplog.records
    assert "t/0" in record.getMessage()
    consumer.refused = set()
    assert await committer.commit([handled(5), other], 5)
    assert committer.committed(KEY) == 5


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


@pytest.fixture
def thrifty(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a broker that takes 100 bytes of metadata."""
    few = {"offset.metadata.max.bytes": "100"}
    monkeypatch.setattr(embedded_kafka, "broker_settings", lambda *given: broker_settings(*given) | few)
    with embedded(t=1) as kafka:
        yield kafka.bootstrap


@pytest.mark.full
async def test_a_broker_with_little_room_gets_what_fits(thrifty: str) -> None:
    async with member(thrifty, "t") as (committer, admin):
        told = Checkpoint(5, attempts=((5, 6, 1),), plan=PlannedBatches(5, 9), acked=scattered(100, 5).acked)
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

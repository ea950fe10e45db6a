"""Commits: under their own generation, or not at all."""

import asyncio
from dataclasses import replace

import pytest
from broker import Broker
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

from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.checkpoint_text import CheckpointText, decode_text
from headrace.runtime.streams.committer import Committer
from headrace.triggers.kafka.group.offsets import GroupOffsets


@pytest.fixture
def consumer() -> Consumer:
    return Consumer()


@pytest.fixture
def committer(consumer: Consumer) -> Committer:
    return Committer(group_offsets(consumer, "t"), trigger_metrics())


async def test_what_has_moved_is_committed_once_with_its_metadata(
    consumer: Consumer, committer: Committer
) -> None:
    committer.open([KEY], {}, generation=1)
    partition = handled(5)
    assert await committer.commit([partition], 5)
    assert await committer.commit([partition], 5)
    assert consumer.commits == [{TP: (5, "headrace/1 n=8 .")}]
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


async def test_attempts_plan_and_acks_are_committed_when_only_they_change(
    consumer: Consumer, committer: Committer
) -> None:
    committer.open([KEY], {KEY: Checkpoint(5)}, generation=1)
    partition = handled(5)
    assert await committer.commit([partition], 5)
    assert consumer.commits == []
    for now in (
        Checkpoint(5, attempts=((5, 6, 1),)),
        Checkpoint(5, attempts=((5, 6, 1),), plan=PlannedBatches(5, 9)),
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


async def test_commits_of_many_partitions_are_sent_in_requests_that_a_broker_can_write(
    consumer: Consumer, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GroupOffsets, "max_request_chars", 10_000)
    committer.open([KEY], {}, generation=1)
    partitions = [Partition("t", number, scattered(500)) for number in range(9)]
    assert await committer.commit(partitions, 5)
    assert [len(commit) for commit in consumer.commits] == [3, 3, 3]
    told = {tp.partition: decoded(text) for commit in consumer.commits for tp, text in commit.items()}
    assert told == {partition.key.partition: partition.checkpoint for partition in partitions}


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


async def test_what_is_replaced_while_a_commit_of_it_waits_for_its_turn_is_not_committed(
    consumer: Consumer, committer: Committer
) -> None:
    committer.open([KEY], {}, generation=1)
    consumer.may_answer.clear()
    before, other = handled(5), Partition("t", 1, Checkpoint(2))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(committer.commit([before], 60))
        await consumer.was_asked.wait()
        before.is_replaced = True
        before.checkpoint = Checkpoint(7)
        tasks.create_task(committer.mark_stale(KEY))
        late = tasks.create_task(committer.commit([before, other], 60))
        after = tasks.create_task(committer.commit([handled(0)], 60))
        await asyncio.sleep(0)
        consumer.may_answer.set()
    assert late.result()
    assert after.result()
    assert [{tp.partition: offset for tp, (offset, _) in commit.items()} for commit in consumer.commits] == [
        {0: 5},
        {1: 2},
        {0: 0},
    ]


async def test_what_is_replaced_between_two_requests_of_a_commit_is_not_in_the_second(
    consumer: Consumer, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GroupOffsets, "max_request_chars", 1)  # one partition each
    committer.open([KEY], {}, generation=1)
    consumer.may_answer.clear()
    first, second = handled(5), Partition("t", 1, Checkpoint(2))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(committer.commit([first, second], 60))
        await consumer.was_asked.wait()
        second.is_replaced = True
        consumer.may_answer.set()
    assert [list(commit) for commit in consumer.commits] == [[TP]]


async def test_a_commit_carries_the_id_of_the_topic_that_its_offsets_are_of(consumer: Consumer) -> None:
    offsets = group_offsets(consumer, "t")
    offsets.begun[KEY] = "before"
    offsets.topics = replace(offsets.topics, ids={"t": "after"})
    committer = Committer(offsets, trigger_metrics())
    committer.open([KEY], {}, generation=1)
    assert await committer.commit([handled(5)], 5)
    told = decode_text(*consumer.commits[0][TP])
    assert told is not None
    assert told.topic_id == "before"


async def test_a_replaced_log_whose_offset_is_the_same_is_committed_again(
    consumer: Consumer, committer: Committer
) -> None:
    """What was committed of the old one is gone with it."""
    committer.open([KEY], {}, generation=1)
    for _ in range(2):
        assert await committer.commit([handled(5)], 5)
        await committer.mark_stale(KEY)
    assert len(consumer.commits) == 2


async def test_what_a_broker_takes_is_what_it_gives_back(broker: Broker, topic: str) -> None:
    async with member(broker.bootstrap, topic) as (committer, admin):
        small = Checkpoint(
            5, attempts=((5, 6, 1), (9, 10, 2)), plan=PlannedBatches(5, 12), acked=((20, 30), (40, 41))
        )
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

"""Commits that come late: behind later ones, or after their partition has gone. No epoch keeps them out.

Since 4.3 Kafka takes a commit of an earlier epoch where the member had the partition then and has kept it.
Before that a broker took one of the same epoch only.
"""

import asyncio
import uuid
from collections.abc import Collection
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.client import ConnectionGroup
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.commit import OffsetCommitRequest
from broker import Broker
from committing import Partition, held, member, trigger_metrics
from group_member import GroupMember, members

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.streams import committer as committers
from headrace.runtime.streams.committer import Committer
from headrace.triggers.kafka.client.commits import fetch_commits
from headrace.triggers.kafka.group.kip848.requests import CommitRequest, read_errors
from headrace.triggers.kafka.group.offsets import GroupTopics, MemberOffsets

_STALE_MEMBER_EPOCH = 113


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said again is said by the next commit."""
    monkeypatch.setattr(committers, "_REPEAT_SECONDS", 0.0)


class _Lines:
    """The way of a member's commits to its coordinator: one that is lost comes when a test says so."""

    def __init__(self, member: GroupMember) -> None:
        self._send = member.session.coordinator.send
        member.session.coordinator.send = self._lose_one  # type: ignore[method-assign]
        self.is_losing = False
        self.lost: list[CommitRequest] = []

    async def _lose_one(self, request: Any) -> Any:
        if self.is_losing and isinstance(request, CommitRequest):
            self.is_losing = False
            self.lost.append(request)
            raise KafkaConnectionError("the connection is gone")
        return await self._send(request)

    async def bring(self) -> set[int]:
        """What was lost comes now. Return the errors."""
        return set(read_errors(await self._send(self.lost.pop())).values())


async def _committed(member: GroupMember, keys: Collection[PartitionKey]) -> dict[PartitionKey, int]:
    partitions = [TopicPartition(*key) for key in keys]
    found = await fetch_commits(member.session._admin, member.session.settings.group, partitions)
    return {PartitionKey(*tp): commit.offset for tp, commit in found.items()}


def _committer(member: GroupMember, topic: str) -> Committer:
    offsets = MemberOffsets(None, member.session._admin, member.session)
    offsets.topics = GroupTopics(first_partition_counts={topic: 8})
    committer = Committer(offsets, trigger_metrics())
    assert member.session.membership is not None
    committer.open([], {}, member.session.membership)
    return committer


async def _shared(topic: str, first: GroupMember, second: GroupMember) -> int:
    """The second one joins, and gets its half. Return the first one's epoch before."""
    assert await first.session.confirm()
    epoch = first.session.machine.epoch
    second.start(topic)
    await second.until(lambda: len(second.has) == 4)
    assert await first.session.confirm()
    assert first.session.machine.epoch > epoch
    return epoch


@pytest.mark.usefixtures("at_once")
async def test_an_older_commit_of_what_was_kept_that_comes_late_is_mended_by_the_next(
    broker: Broker, topic: str
) -> None:
    async with members(broker.bootstrap, f"g-{uuid.uuid4().hex[:8]}", 2) as (first, second):
        first.start(topic)
        await first.until(lambda: len(first.has) == 8)
        lines, committer = _Lines(first), _committer(first, topic)
        lines.is_losing = True
        every = [Partition(*key, Checkpoint(10)) for key in sorted(first.has)]
        assert await committer.commit(every, 10), "by the request that is sent in the lost one's place"
        await _shared(topic, first, second)
        kept = [Partition(*key, Checkpoint(20)) for key in sorted(first.has)]
        assert await committer.commit(kept, 10)
        # The lost request is of partitions that have gone, too: without them it is one that Kafka 4.3 takes.
        lines.lost[0]._offsets = {it.key: (10, "") for it in kept}
        assert await lines.bring() <= {_STALE_MEMBER_EPOCH}
        assert await committer.commit(kept, 10)
        assert await _committed(first, first.has) == dict.fromkeys(first.has, 20)


async def test_a_late_commit_of_what_was_lost_and_came_back_is_void(broker: Broker, topic: str) -> None:
    async with members(broker.bootstrap, f"g-{uuid.uuid4().hex[:8]}", 2) as (first, second):
        first.start(topic)
        await first.until(lambda: len(first.has) == 8)
        lines = _Lines(first)
        epoch = await _shared(topic, first, second)
        key = min(second.has)
        name = first.session.settings.group
        late = CommitRequest(name, (first.session.member_id, epoch, ""), {key: (10, "")})
        lines.lost = [late, late]
        assert await lines.bring() == {_STALE_MEMBER_EPOCH}, "another one has it"
        last = CommitRequest(
            name, (second.session.member_id, second.session.machine.epoch, ""), {key: (30, "")}
        )
        assert not read_errors(await second.session.coordinator.send(last))
        await second.leave()
        await first.until(lambda: len(first.has) == 8)
        assert await first.session.confirm()
        assert await lines.bring() == {_STALE_MEMBER_EPOCH}, "it has come back since"
        assert await _committed(first, [key]) == {key: 30}


@pytest.mark.usefixtures("at_once")
async def test_an_older_commit_of_the_same_generation_that_comes_late_is_mended_by_the_next(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the protocol classic: aiokafka sends again what was not answered, and says nothing of it."""
    topic = broker.create_topic(1)
    async with member(broker.bootstrap, topic) as (committer, admin):
        consumer: Any = committer._store._consumer  # type: ignore[attr-defined]
        client, lost = consumer._client, list[Any]()
        send = client.send

        async def lose_one(node: int, request: Any, **way: Any) -> Any:
            if isinstance(request, OffsetCommitRequest) and not lost:
                lost.append((node, request))
                raise KafkaConnectionError("the connection is gone")
            return await send(node, request, **way)

        monkeypatch.setattr(client, "send", lose_one)
        assert await committer.commit([Partition(topic, 0, Checkpoint(10))], 10)
        partition = Partition(topic, 0, Checkpoint(20))
        assert await committer.commit([partition], 10)
        (node, late) = lost[0]
        await send(node, late, group=ConnectionGroup.COORDINATION)
        moved_back = await held(admin, topic, 0)
        assert moved_back is not None
        assert moved_back.checkpoint.offset == 10
        assert await committer.commit([partition], 10)
        mended = await held(admin, topic, 0)
        assert mended is not None
        assert mended.checkpoint.offset == 20


async def test_what_was_answered_is_said_once(broker: Broker) -> None:
    topic = broker.create_topic(1)
    async with member(broker.bootstrap, topic) as (committer, _):
        for _ in range(3):
            assert await committer.commit([Partition(topic, 0, Checkpoint(10))], 10)
        assert committer.metrics.commits_done._value.get() == 1


async def test_a_commit_that_nobody_waits_for_any_more_may_still_come(broker: Broker, topic: str) -> None:
    async with members(broker.bootstrap, f"g-{uuid.uuid4().hex[:8]}", 1) as (alone,):
        alone.start(topic)
        await alone.until(lambda: len(alone.has) == 8)
        committer, send = _committer(alone, topic), alone.session.coordinator.send

        async def silent(request: Any) -> Any:
            return await (asyncio.Event().wait() if isinstance(request, CommitRequest) else send(request))

        alone.session.coordinator.send = silent  # type: ignore[method-assign]
        before = committer._store.unanswered_at
        assert not await committer.commit([Partition(topic, 0, Checkpoint(10))], 0.05)
        assert committer._store.unanswered_at > before

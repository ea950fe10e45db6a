"""Members of one group on a real broker: what moves, what stays, and what they are refused."""

import asyncio
import uuid
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError
from broker import Broker
from group_member import GroupMember, members
from group_sessions import set_session

from headrace.runtime.errors import BrokerError
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.offset_store import CommitRefusedError
from headrace.runtime.tasks import end_tasks
from headrace.triggers.kafka.client.commits import Commit, fetch_commits
from headrace.triggers.kafka.client.topics import topic_names
from headrace.triggers.kafka.group.kip848 import session
from headrace.triggers.kafka.group.kip848.commits import MemberCommits
from headrace.triggers.kafka.group.kip848.machine import JOIN, LEAVE, GroupSettings, MemberState
from headrace.triggers.kafka.group.kip848.requests import CommitRequest


def _group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


def _all(topic: str) -> set[PartitionKey]:
    return {PartitionKey(topic, number) for number in range(8)}


async def test_a_newcomer_gets_its_half_and_the_rest_stays(broker: Broker, topic: str) -> None:
    async with members(broker.bootstrap, _group(), 2) as (first, second):
        first.start(topic)
        await first.until(lambda: first.has == _all(topic))
        second.start(topic)
        await second.until(lambda: len(second.has) == 4)
        assert first.has == _all(topic) - second.has
        assert [what for what, _ in first.said] == ["assigned", "revoked"]
        await second.leave()
        await first.until(lambda: first.has == _all(topic))


async def test_what_is_not_released_is_nobody_elses(broker: Broker, topic: str) -> None:
    async with members(broker.bootstrap, _group(), 2) as (first, second):
        first.start(topic)
        await first.until(lambda: len(first.has) == 8)
        first.keeps = True
        second.start(topic)
        await first.until(lambda: len(first.said) == 2)
        what, keys = first.said[-1]
        assert (what, len(keys)) == ("revoked", 4)
        first.release(keys[:3])
        assert await first.session.confirm()
        assert await second.session.confirm()
        assert not second.has
        first.release(keys[3:])
        await second.until(lambda: second.has == set(keys))


async def test_a_static_member_finds_what_it_had(broker: Broker, topic: str) -> None:
    group = _group()
    async with members(broker.bootstrap, group, 2, "a", "b") as (first, second):
        first.start(topic)
        second.start(topic)
        await first.until(lambda: len(first.has) == 4)
        await second.until(lambda: len(second.has) == 4)
        had, said = set(first.has), list(second.said)
        await first.leave()
        async with members(broker.bootstrap, group, 1, "a") as (again,):
            again.start(topic)
            await again.until(lambda: again.has == had)
            assert await second.session.confirm()
            assert second.said == said


async def test_a_second_one_with_the_same_id_waits_for_the_first(broker: Broker, topic: str) -> None:
    async with members(broker.bootstrap, _group(), 2, "box-1", "box-1") as (first, second):
        first.start(topic)
        await first.until(lambda: first.has == _all(topic))
        second.start(topic)
        assert not await second.session.confirm()
        assert "still has a member with groupInstanceId box-1" in second.session.problem
        assert await first.session.confirm()
        await first.leave()
        await second.until(lambda: second.has == _all(topic))
        assert [it for it, _ in first.said] == ["assigned"]


async def test_who_was_replaced_while_it_stood_still_loses_all_before_it_ends(
    broker: Broker, topic: str
) -> None:
    """Nothing that it was in may go on beside its successor, as it might while it stops."""
    group, may_go_on = _group(), asyncio.Event()
    set_session(broker, group, 2.0)
    async with members(broker.bootstrap, group, 2, "box-1", "box-1") as (first, second):
        first.start(topic)
        await first.until(lambda: first.has == _all(topic))
        send = first.session.coordinator.send

        async def held(request: object) -> Any:
            await may_go_on.wait()
            return await send(request)

        first.session.coordinator.send = held  # type: ignore[method-assign]
        second.start(topic)
        await second.until(lambda: second.has == _all(topic))
        may_go_on.set()
        assert first.heartbeats is not None
        with pytest.raises(BrokerError, match="groupInstanceId box-1"):
            await asyncio.wait_for(first.heartbeats, 20)
        first.heartbeats = None
        assert [it for it, _ in first.said] == ["assigned", "lost"]
        assert first.session.membership is None


async def test_whose_id_a_classic_member_takes_loses_all_before_it_ends(broker: Broker, topic: str) -> None:
    """The broker lets it, while ours lives; where ours is the only member, its group is classic then."""
    group = _group()
    classic = AIOKafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, group_id=group, group_instance_id="box-1"
    )
    async with members(broker.bootstrap, group, 1, "box-1") as (member,):
        member.start(topic)
        await member.until(lambda: member.has == _all(topic))
        await classic.start()
        try:
            assert member.heartbeats is not None
            with pytest.raises(BrokerError, match="used by members of the protocol classic"):
                await asyncio.wait_for(member.heartbeats, 20)
            member.heartbeats = None
            assert [it for it, _ in member.said] == ["assigned", "lost"]
        finally:
            await classic.stop()


async def test_a_member_that_is_unknown_joins_again(broker: Broker, topic: str) -> None:
    async with members(broker.bootstrap, _group(), 1) as (member,):
        member.start(topic)
        await member.until(lambda: len(member.has) == 8)
        assert await member.session.confirm()  # none is under way now
        member.session.machine.epoch = 77
        await member.session.confirm()
        await member.until(lambda: [it for it, _ in member.said] == ["assigned", "lost", "assigned"])
        assert member.session.membership == 2


async def test_a_commit_goes_with_the_epoch_and_is_found(broker: Broker, topic: str) -> None:
    group = _group()
    async with members(broker.bootstrap, group, 1) as (member,):
        member.start(topic)
        await member.until(lambda: len(member.has) == 8)
        offsets = MemberCommits(member.session)
        assert await offsets.write({PartitionKey(topic, 0): (3, "text")}) == {}
        found = await fetch_commits(member.session._admin, group, [TopicPartition(*it) for it in _all(topic)])
        assert [it.offset for it in found.values()] == [3]
        missing = PartitionKey("no-such-topic", 0)
        refused = await offsets.write({PartitionKey(topic, 0): (5, ""), missing: (1, "")})
        assert list(refused) == [missing]


async def test_a_stale_epoch_is_asked_for_and_the_commit_sent_again(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with members(broker.bootstrap, _group(), 1) as (member,):
        member.start(topic)
        await member.until(lambda: len(member.has) == 8)
        machine, asked = member.session.machine, list[int]()

        async def confirm() -> bool:
            machine.epoch = epoch
            asked.append(1)
            return True

        assert await member.session.confirm()
        epoch = machine.epoch
        monkeypatch.setattr(member.session, "confirm", confirm)
        machine.epoch = 0  # as if the answer was still under way
        assert await MemberCommits(member.session).write({PartitionKey(topic, 0): (4, "")}) == {}
        assert asked


async def test_a_commit_is_sent_again_where_its_coordinator_has_moved(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with members(broker.bootstrap, _group(), 1) as (member,):
        member.start(topic)
        await member.until(lambda: len(member.has) == 8)
        assert await member.session.confirm()
        coordinator, failures = member.session.coordinator, [KafkaConnectionError("gone")]
        send = coordinator.send

        async def fails_once(request: object) -> Any:
            if isinstance(request, CommitRequest) and failures:
                raise failures.pop()
            return await send(request)

        monkeypatch.setattr(coordinator, "send", fails_once)
        assert await MemberCommits(member.session).write({PartitionKey(topic, 0): (4, "")}) == {}
        assert not failures


async def test_only_a_member_of_the_epoch_is_told_what_is_committed(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with members(broker.bootstrap, _group(), 1) as (member,):
        member.start(topic)
        await member.until(lambda: len(member.has) == 8)
        offsets, key = MemberCommits(member.session), PartitionKey(topic, 3)
        await offsets.write({key: (4, "text")})
        assert await offsets.read(_all(topic)) == {key: Commit(4, "text")}
        assert await member.session.confirm()
        machine, asked = member.session.machine, list[int]()
        epoch = machine.epoch

        async def confirm() -> bool:
            asked.append(machine.epoch)
            machine.epoch = epoch
            return True

        monkeypatch.setattr(member.session, "confirm", confirm)
        machine.epoch = 0
        assert await offsets.read([key]) == {key: Commit(4, "text")}
        assert asked == [0]
        member.session.member_id = "somebody"
        with pytest.raises(KafkaError):
            await offsets.read([key])


async def test_a_member_whose_name_is_taken_has_that_one_leave_first(broker: Broker, topic: str) -> None:
    """As one that joins again does, where the group still knows it from before."""
    async with members(broker.bootstrap, _group(), 2) as (before, now):
        before.start(topic)
        await before.until(lambda: len(before.has) == 8)
        assert before.heartbeats is not None
        await end_tasks([before.heartbeats])
        before.heartbeats = None
        now.session.member_id, now.session.settings = before.session.member_id, before.session.settings
        joins, epoch = [], before.session.machine.epoch
        send = now.session.coordinator.send

        async def counted(request: Any) -> Any:
            joins.append(request._heartbeat.epoch)
            return await send(request)

        now.session.coordinator.send = counted  # type: ignore[method-assign]
        now.start(topic)
        await now.until(lambda: now.has == _all(topic))
        assert joins[:2] in ([JOIN, LEAVE], [JOIN, epoch]), "a broker may take it for the one before"
        assert len(joins) < 10


async def test_topics_that_the_broker_does_not_name_hold_up_no_release(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = broker.create_topic(2)
    async with members(broker.bootstrap, _group(), 1) as (member,):
        member.start(topic)
        await member.until(lambda: len(member.has) == 8)
        may_answer, names = asyncio.Event(), topic_names

        async def late(*arguments: Any) -> Any:
            await may_answer.wait()
            return await names(*arguments)

        monkeypatch.setattr(session, "topic_names", late)
        member.session.subscribe([other])
        await member.until(lambda: member.has == set())
        may_answer.set()
        await member.until(lambda: len(member.has) == 2)


async def test_who_is_no_member_commits_nothing(broker: Broker, topic: str) -> None:
    async with members(broker.bootstrap, _group(), 2) as (member, other):
        member.start(topic)
        await member.until(lambda: len(member.has) == 8)
        other.session.settings = member.session.settings
        other.session.machine.epoch = 1
        with pytest.raises(CommitRefusedError, match="without this replica"):
            await MemberCommits(other.session).write({PartitionKey(topic, 0): (9, "")})


async def test_a_group_knows_how_long_its_session_is(broker: Broker, topic: str) -> None:
    async with members(broker.bootstrap, _group(), 1) as (member,):
        member.start(topic)
        await member.until(lambda: len(member.has) == 8)
        assert member.session._deadline.session_seconds == await member.session.coordinator.session_seconds()


async def test_a_group_of_another_kind_is_refused_with_a_line(broker: Broker, topic: str) -> None:
    """A classic group whose members share out nothing that a broker could take over."""
    group = _group()
    classic = AIOKafkaConsumer(topic, bootstrap_servers=broker.bootstrap, group_id=group)
    await classic.start()
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        settings = GroupSettings(group, 20.0, remote_assignor="nobodys")
        member = GroupMember(admin, settings)
        member.start(topic)
        assert member.heartbeats is not None
        with pytest.raises(BrokerError, match="groupRemoteAssignor nobodys"):
            await asyncio.wait_for(member.heartbeats, 20)
        member.heartbeats = None
    finally:
        await admin.close()
        await classic.stop()


async def test_other_topics_are_read_after_a_word(broker: Broker, topic: str) -> None:
    other = broker.create_topic(2)
    async with members(broker.bootstrap, _group(), 1) as (member,):
        member.start(topic)
        await member.until(lambda: len(member.has) == 8)
        member.session.subscribe([topic, other])
        await member.until(lambda: len(member.has) == 10)
        member.session.subscribe([other])
        await member.until(lambda: len(member.has) == 2)
        assert member.session.machine.state in {MemberState.STABLE, MemberState.RECONCILING}

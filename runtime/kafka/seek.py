"""Commits of a consumer group moved to other offsets, on any broker."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from headrace.runtime.errors import HeadraceError, UsageError
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.client import connected, partitions_of
from headrace.runtime.kafka.groups import (
    ANSWER_SECONDS,
    ConsumerGroupMember,
    existing_group,
    no_answer,
    read_commits,
)
from headrace.runtime.kafka.topics import know_topics

TopicOrPartition: TypeAlias = tuple[str, int | None]
"""A topic, and one of its partitions or all."""
Target: TypeAlias = Literal["earliest", "latest"] | int | datetime
"""The place to seek: an end, an offset, or the first record at or after a time (aware)."""


class GroupHasMembersError(HeadraceError):
    """The group has members: they would go on from where they are, and commit over it."""

    exit_code = 5


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """A partition's committed offset, before and after. `before` is None where there was none."""

    topic: str
    partition: int
    before: int | None
    after: int


async def seek(
    brokers: BrokerAccess, name: str, places: Sequence[TopicOrPartition], to: Target
) -> list[OffsetMove]:
    """Commit other offsets for a group that nobody is in; none of them, or all.

    Without metadata: what Headrace had noted beside the old offsets (acks, attempts, plans) is void. Raises
    NoSuchGroupError, GroupHasMembersError, UsageError, BrokerError.
    """
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.errors import CommitFailedError

    async with connected(AIOKafkaAdminClient, brokers) as admin:
        if (group := await existing_group(admin, brokers, name)).members:
            raise _has_members(name, group.members)
        before = await read_commits(admin, brokers, name)
    wanted = [TopicPartition(*place) for place in await _partitions(brokers, places)]
    # A simple consumer in the group's name, which joins nothing: the broker takes its commits while nobody is
    # in.
    async with connected(AIOKafkaConsumer, brokers, group_id=name, enable_auto_commit=False) as committer:
        after = await _offsets(committer, wanted, to)
        committer.assign(wanted)  # or it refuses to commit
        committer.pause(*wanted)  # nobody wants records
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await committer.commit({tp: (offset, "") for tp, offset in after.items()})
        except CommitFailedError:
            raise _has_members(name) from None  # one joined just now
        except TimeoutError:
            raise no_answer(brokers, "the commit was not confirmed") from None
    return [
        OffsetMove(tp.topic, tp.partition, before.get((tp.topic, tp.partition)), offset)
        for tp, offset in after.items()
    ]


async def _partitions(brokers: BrokerAccess, places: Sequence[TopicOrPartition]) -> list[tuple[str, int]]:
    """Return the partitions that `places` stand for, in order. Raises BrokerError, UsageError."""
    found: dict[tuple[str, int], None] = {}
    for topic, partition in places:
        there = await partitions_of(brokers, topic)
        if partition is not None and partition not in there:
            raise UsageError(f"topic {topic} has partitions 0 to {max(there)}: not {partition}")
        found |= {(topic, number): None for number in (there if partition is None else [partition])}
    return sorted(found)


async def _offsets(consumer: Any, wanted: list[Any], to: Target) -> dict[Any, int]:
    await know_topics(consumer, {place.topic for place in wanted})
    first: dict[Any, int] = await consumer.beginning_offsets(wanted)
    end: dict[Any, int] = await consumer.end_offsets(wanted)
    if to == "earliest":
        return first
    if to == "latest":
        return end
    if isinstance(to, int):
        for tp in wanted:
            if not first[tp] <= to <= end[tp]:
                raise UsageError(
                    f"{tp.topic}/{tp.partition} has offsets {first[tp]} to {end[tp]}, its end: not {to}"
                )
        return dict.fromkeys(wanted, to)
    found = await consumer.offsets_for_times(dict.fromkeys(wanted, int(to.timestamp() * 1000)))
    return {tp: found[tp].offset if found[tp] else end[tp] for tp in wanted}


def _has_members(name: str, members: Sequence[ConsumerGroupMember] = ()) -> GroupHasMembersError:
    clients = ", ".join(sorted({f"{member.client} on {member.host}" for member in members}))
    return GroupHasMembersError(
        f"group {name} has members{f' ({clients})' if clients else ''}: stop them first; "
        "they would commit over it"
    )

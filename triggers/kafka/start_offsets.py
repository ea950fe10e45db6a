"""Where an assignment starts: the group's commits, or the function's initialOffset."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    LeaderNotAvailableError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import CheckpointText, decode_text
from headrace.triggers.kafka.client.commits import Commit
from headrace.triggers.kafka.client.topics import TopicDescription, describe_topics
from headrace.triggers.kafka.settings.model import KafkaSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_SECONDS = 0.5
_ANSWER_SECONDS = 10.0

Texts = Mapping[TopicPartition, CheckpointText | None]


@dataclass(frozen=True, slots=True)
class GroupTopics:
    """What commits carry on of the trigger's topics; `first` is of all of them, the rest by name.

    `ids`, and how many partitions each had when the group came to it: 0 where it has appeared since.
    `first`: the ids of those that were there when the group came to any; None before anybody has looked.
    `gone`: ids that others have followed. A broker that lags behind may still tell of them.
    """

    ids: Mapping[str, str] = field(default_factory=dict)
    first_partition_counts: Mapping[str, int] = field(default_factory=dict)
    first: frozenset[str] | None = None
    gone: frozenset[str] = frozenset()

    def is_made_anew(self, name: str, topic_id: str) -> bool:
        """Whether the topic of that name isn't the one that is known."""
        return self.ids.get(name, topic_id) != topic_id and topic_id not in self.gone

    def merged(self, other: "GroupTopics") -> "GroupTopics":
        """With what another look has found, which may have begun before this was known."""
        gone = self.gone | other.gone
        known = {name: it for name, it in other.ids.items() if it not in gone or name not in self.ids}
        counts = {name: other.first_partition_counts[name] for name in known}
        first = other.first if self.first is None else self.first & (other.first or self.first)
        return GroupTopics({**self.ids, **known}, {**self.first_partition_counts, **counts}, first, gone)

    def with_anew(self, name: str, topic_id: str) -> "GroupTopics":
        """It has followed the one that is known."""
        ids, counts = {**self.ids, name: topic_id}, {**self.first_partition_counts, name: 0}
        return GroupTopics(ids, counts, self.first, self.gone | {self.ids[name]} - {topic_id})


@dataclass(frozen=True, slots=True)
class GroupStartOffsets:
    """By assigned partition: what to start from, and what the group has committed, if it has.

    Partitions without a leader are left out. `made_anew`: topics that aren't those that were read before.
    """

    checkpoints: Mapping[TopicPartition, Checkpoint]
    committed: Mapping[TopicPartition, Checkpoint]
    topics: GroupTopics
    made_anew: frozenset[str] = frozenset()


class Group(Protocol):
    """What a group has committed, as a member of it may know."""

    topics: GroupTopics
    """What is known already."""

    async def read(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Commit]:
        """Of these; those without a commit are left out. Raises KafkaError."""

    def given_id(self, key: PartitionKey) -> str | None:
        """Of the topic whose partition the group has given; None where it goes by names."""


async def read_starts(
    consumer: AIOKafkaConsumer,
    admin: AIOKafkaAdminClient,
    settings: KafkaSettings,
    assigned: Collection[TopicPartition],
    group: Group,
) -> GroupStartOffsets:
    """Ask until the broker answers for some: nothing may be delivered without."""
    return await answer(lambda: _read_starts(consumer, admin, settings, assigned, group))


async def read_ends(
    consumer: AIOKafkaConsumer, assigned: Collection[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Where the partitions end now. Asks until the broker answers: acks may wait for it."""
    return await answer(lambda: consumer.end_offsets(list(assigned)))


async def answer(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the broker answers. Raises what waiting does not mend."""
    said = ""
    while True:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):  # the client would wait for a leader for a minute
                return await ask()
        except (
            GroupAuthorizationFailedError,
            TopicAuthorizationFailedError,
            TransactionalIdAuthorizationFailed,
        ):
            raise
        except (KafkaError, TimeoutError) as error:
            line = f"where to start can't be read yet ({error!r}); nothing of it is delivered before that"
            if line != said:
                logger.warning("%s", line)
                said = line
            await asyncio.sleep(_RETRY_SECONDS)


async def _read_starts(
    consumer: AIOKafkaConsumer,
    admin: AIOKafkaAdminClient,
    settings: KafkaSettings,
    assigned: Collection[TopicPartition],
    group: Group,
) -> GroupStartOffsets:
    before = group.topics
    described = await describe_topics(admin, {*consumer.subscription(), *(tp.topic for tp in assigned)})
    found = {name: topic for name, topic in described.items() if topic.id not in before.gone}
    readable = [tp for tp in assigned if _is_readable(tp, found.get(tp.topic), group)]
    if assigned and not readable:
        raise LeaderNotAvailableError(", ".join(f"{tp.topic}/{tp.partition}" for tp in sorted(assigned)))
    every = {TopicPartition(name, n) for name, topic in found.items() for n in range(topic.partition_count)}
    commits = await group.read(sorted(every.union(readable)))
    told = {tp: decode_text(commit.offset, commit.metadata) for tp, commit in commits.items()}
    outdated = {tp for tp, text in told.items() if _is_outdated(text, found.get(tp.topic))}
    topics = _topics(found, told, outdated, before)
    committed = {
        tp: metadata.checkpoint if (metadata := told[tp]) is not None else Checkpoint(commits[tp].offset)
        for tp in readable
        if tp in commits and tp not in outdated
    }
    fresh = [tp for tp in readable if tp not in committed]
    is_latest, counts = settings.initial_offset == "latest", topics.first_partition_counts
    at_end = [tp for tp in fresh if is_latest and tp.partition < counts[tp.topic]]
    at_beginning = [tp for tp in fresh if tp not in at_end]
    offsets: dict[TopicPartition, int] = {}
    if at_end:
        offsets |= await consumer.end_offsets(at_end)
    if at_beginning:
        offsets |= await consumer.beginning_offsets(at_beginning)
    fresh_starts = {tp: Checkpoint(offset) for tp, offset in offsets.items()}
    anew = {tp.topic for tp in outdated} | {n for n, it in found.items() if before.is_made_anew(n, it.id)}
    mine = {tp.topic for tp in assigned}
    return GroupStartOffsets(committed | fresh_starts, committed, topics, frozenset(anew & mine))


def _is_readable(tp: TopicPartition, topic: TopicDescription | None, group: Group) -> bool:
    """It is there, and led; and it isn't the log before or after the one that the group has given."""
    if topic is None or tp.partition in topic.leaderless or not 0 <= tp.partition < topic.partition_count:
        return False
    return group.given_id(PartitionKey(*tp)) in {None, topic.id}


def _is_outdated(text: CheckpointText | None, topic: TopicDescription | None) -> bool:
    """It is about the offsets of another topic, which had the same name."""
    return text is not None and topic is not None and text.topic_id not in {"", topic.id}


def _topics(
    found: Mapping[str, TopicDescription],
    told: Texts,
    outdated: Collection[TopicPartition],
    before: GroupTopics,
) -> GroupTopics:
    ids = {name: topic.id for name, topic in found.items()}
    first = _first_topics(told, before, ids.values())
    current = {tp: text for tp, text in told.items() if tp not in outdated}
    counts = {
        name: _first_partition_count(name, current, topic.partition_count if topic.id in first else 0)
        for name, topic in found.items()
    }
    gone = {before.ids[name] for name, topic in found.items() if before.is_made_anew(name, topic.id)}
    counts = {**before.first_partition_counts, **counts}
    return GroupTopics({**before.ids, **ids}, counts, first, before.gone | gone)


def _first_topics(told: Texts, before: GroupTopics, ids: Collection[str]) -> frozenset[str]:
    """What the group's commits say, or what was so when this process came, or if it is the first what is now.

    Commits that say nothing of it say that the group was here: what has no commit counts as new.
    """
    lists = [frozenset(text.first_topics) for text in told.values() if text is not None and text.first_topics]
    if lists:
        return frozenset.intersection(*lists)
    if before.first is not None:
        return before.first
    return frozenset() if told else frozenset(ids)


def _first_partition_count(topic: str, told: Texts, count: int) -> int:
    """What the group's commits on a topic say, or if there are none `count`.

    Commits without our metadata say that the group was here, but not when: all else counts as new.
    """
    here = [metadata for tp, metadata in told.items() if tp.topic == topic]
    known = [metadata.first_partition_count for metadata in here if metadata is not None]
    return min(known, default=0 if here else count)

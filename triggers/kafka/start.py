"""Where an assignment starts: the group's commits, or the function's initialOffset."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError, TopicAuthorizationFailedError

from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.partitions.checkpoint_text import CheckpointText, decode_text
from headrace.triggers.kafka.client.internals import fetch_commits

logger = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class GroupStarts:
    """By assigned partition: what to start from, and what the group has committed, if it has.

    By topic: the first partition count, which every commit is to carry on.
    """

    checkpoints: Mapping[TopicPartition, Checkpoint]
    committed: Mapping[TopicPartition, Checkpoint]
    first_partition_counts: Mapping[str, int]


async def read_starts(
    consumer: AIOKafkaConsumer,
    admin: AIOKafkaAdminClient,
    group: str,
    assigned: Collection[TopicPartition],
    initial_offset: str,
) -> GroupStarts:
    """Ask until the broker answers: nothing may be delivered without."""
    return await _answer(lambda: _read_starts(consumer, admin, group, assigned, initial_offset))


async def read_ends(
    consumer: AIOKafkaConsumer, assigned: Collection[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Where the partitions end now. Asks until the broker answers: acks may wait for it."""
    return await _answer(lambda: consumer.end_offsets(list(assigned)))


async def _answer(ask: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await ask()
        except (GroupAuthorizationFailedError, TopicAuthorizationFailedError):
            raise  # waiting does not mend it
        except KafkaError as error:
            logger.warning(
                "the group's offsets can't be read yet (%r); nothing is delivered before that", error
            )
            await asyncio.sleep(_RETRY_SECONDS)


async def _read_starts(
    consumer: AIOKafkaConsumer,
    admin: AIOKafkaAdminClient,
    group: str,
    assigned: Collection[TopicPartition],
    initial_offset: str,
) -> GroupStarts:
    numbers = {tp.topic: consumer.partitions_for_topic(tp.topic) or {tp.partition} for tp in assigned}
    every = [TopicPartition(topic, number) for topic in numbers for number in numbers[topic]]
    commits = await fetch_commits(admin, group, sorted({*every, *assigned}))
    told = {tp: decode_text(commit.offset, commit.metadata) for tp, commit in commits.items()}
    counts = {topic: _first_partition_count(topic, told, len(numbers[topic])) for topic in numbers}
    committed = {
        tp: metadata.checkpoint if (metadata := told[tp]) is not None else Checkpoint(commits[tp].offset)
        for tp in assigned
        if tp in commits
    }
    fresh = [tp for tp in assigned if tp not in committed]
    at_end = [tp for tp in fresh if initial_offset == "latest" and tp.partition < counts[tp.topic]]
    at_beginning = [tp for tp in fresh if tp not in at_end]
    offsets: dict[TopicPartition, int] = {}
    if at_end:
        offsets |= await consumer.end_offsets(at_end)
    if at_beginning:
        offsets |= await consumer.beginning_offsets(at_beginning)
    fresh_starts = {tp: Checkpoint(offset) for tp, offset in offsets.items()}
    return GroupStarts(committed | fresh_starts, committed, counts)


def _first_partition_count(
    topic: str, told: Mapping[TopicPartition, CheckpointText | None], count: int
) -> int:
    """What the group's commits on a topic say, or if there are none what is so now.

    Commits without our metadata say that the group was here, but not when: all else counts as new.
    """
    here = [metadata for tp, metadata in told.items() if tp.topic == topic]
    known = [metadata.first_partition_count for metadata in here if metadata is not None]
    return min(known, default=0 if here else count)

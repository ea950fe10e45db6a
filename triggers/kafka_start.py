"""Where an assignment starts: the group's commits, or the function's initialOffset."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError, TopicAuthorizationFailedError

from headrace.triggers.kafka_internals import Commit, fetch_commits
from headrace.triggers.kafka_metadata import CommitMetadata, decode_metadata

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Starts:
    """By assigned partition: the first offset to deliver, and what the group has committed, if it has.

    By topic: the metadata that every commit is to carry on.
    """

    offsets: Mapping[TopicPartition, int]
    committed: Mapping[TopicPartition, int]
    metadata: Mapping[str, CommitMetadata]


async def read_starts(
    consumer: AIOKafkaConsumer,
    admin: AIOKafkaAdminClient,
    group: str,
    assigned: Collection[TopicPartition],
    initial_offset: str,
) -> Starts:
    """Ask until the broker answers: nothing may be delivered without."""
    while True:
        try:
            return await _read_starts(consumer, admin, group, assigned, initial_offset)
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
) -> Starts:
    numbers = {tp.topic: consumer.partitions_for_topic(tp.topic) or {tp.partition} for tp in assigned}
    every = [TopicPartition(topic, number) for topic in numbers for number in numbers[topic]]
    commits = await fetch_commits(admin, group, sorted({*every, *assigned}))
    metadata = {topic: _metadata(topic, commits, len(numbers[topic])) for topic in numbers}
    committed = {tp: commits[tp].offset for tp in assigned if tp in commits}
    fresh = [tp for tp in assigned if tp not in committed]
    at_end = [
        tp
        for tp in fresh
        if initial_offset == "latest" and tp.partition < metadata[tp.topic].first_partition_count
    ]
    at_beginning = [tp for tp in fresh if tp not in at_end]
    starts = dict(committed)
    if at_end:
        starts |= await consumer.end_offsets(at_end)
    if at_beginning:
        starts |= await consumer.beginning_offsets(at_beginning)
    return Starts(starts, committed, metadata)


def _metadata(topic: str, commits: Mapping[TopicPartition, Commit], count: int) -> CommitMetadata:
    """What the group's commits on a topic say, or if there are none what is so now.

    Commits without our metadata say that the group was here, but not when: all else counts as new.
    """
    here = [decode_metadata(commit.metadata) for tp, commit in commits.items() if tp.topic == topic]
    known = [metadata.first_partition_count for metadata in here if metadata is not None]
    return CommitMetadata(min(known, default=0 if here else count))

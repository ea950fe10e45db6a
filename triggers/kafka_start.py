"""Where an assignment starts: the group's commits, or the function's initialOffset."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Starts:
    """By assigned partition: the first offset to deliver, and what the group has committed, if it has."""

    offsets: Mapping[TopicPartition, int]
    committed: Mapping[TopicPartition, int]


async def read_starts(
    consumer: AIOKafkaConsumer,
    admin: AIOKafkaAdminClient,
    group: str,
    assigned: Collection[TopicPartition],
    initial_offset: str,
) -> Starts:
    """Ask until the broker answers: nothing may be delivered without.

    The admin client reads commits, because the consumer's `committed` drops the metadata.
    """
    while True:
        try:
            entries = await admin.list_consumer_group_offsets(group)
            committed = {tp: entry.offset for tp, entry in entries.items() if entry.offset >= 0}
            offsets = await _start_offsets(consumer, assigned, committed, initial_offset)
        except KafkaError as error:
            logger.warning(
                "the group's offsets can't be read yet (%r); nothing is delivered before that", error
            )
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return Starts(offsets, {tp: committed[tp] for tp in assigned if tp in committed})


async def _start_offsets(
    consumer: AIOKafkaConsumer,
    assigned: Collection[TopicPartition],
    committed: Mapping[TopicPartition, int],
    initial_offset: str,
) -> dict[TopicPartition, int]:
    """`initial_offset` holds for topics that the group has never committed.

    In a topic that it has, a partition without a commit has appeared since, and is read from its beginning.
    """
    known_topics = {tp.topic for tp in committed}
    fresh = [tp for tp in assigned if tp not in committed]
    at_end = [tp for tp in fresh if initial_offset == "latest" and tp.topic not in known_topics]
    at_beginning = [tp for tp in fresh if tp not in at_end]
    starts = {tp: committed[tp] for tp in assigned if tp in committed}
    if at_end:
        starts |= await consumer.end_offsets(at_end)
    if at_beginning:
        starts |= await consumer.beginning_offsets(at_beginning)
    return starts

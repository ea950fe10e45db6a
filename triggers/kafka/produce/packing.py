"""Messages for one topic, packed by partition: a batch costs the client much less than its messages do."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from headrace.runtime.kafka.producer import track
from headrace.runtime.partitions.offsets.pending_produces import DeliveryReport, Outgoing
from headrace.runtime.wire.produce import Message

logger = logging.getLogger(__name__)

Waiting = deque[Outgoing]
Targets = tuple[Sequence[int], Sequence[int]]
"""The partitions of a topic, and those of them that somebody leads."""

_TOPIC_SECONDS = 1.0
_by_key = DefaultPartitioner()
_numbers = count()


class MessageBatch:
    """Messages of one partition in a batch of aiokafka's, in order."""

    def __init__(self, builder: Any, partition: int) -> None:
        self.builder = builder
        self.partition = partition
        self.messages: list[Outgoing] = []
        self.number = next(_numbers)
        """Higher than those of all that were packed before."""
        self.goes_in_parts = False
        """One of its messages is refused: each goes alone next time."""

    @classmethod
    def of(cls, messages: Iterable[Outgoing]) -> "MessageBatch":
        """In no batch: they can't be written."""
        packed = cls(None, -1)
        packed.messages.extend(messages)
        return packed

    def add(self, outgoing: Outgoing, most_bytes: int | None = None) -> bool:
        """False where it is full. The first one always fits, and a large one then is alone."""
        message, _ = outgoing
        headers = list(message.headers)
        if most_bytes is not None and self.messages:
            size_bytes = DefaultRecordBatchBuilder.estimate_size_in_bytes(message.key, message.value, headers)
            if self.builder.size() + size_bytes > most_bytes:
                return False
        added = self.builder.append(
            timestamp=message.timestamp, key=message.key, value=message.value, headers=headers
        )
        if added is not None:
            self.messages.append(outgoing)
        return added is not None

    def confirm(self, first_offset: int) -> None:
        """It is written, from there on; -1 where the broker doesn't say."""
        step = 0 if first_offset < 0 else 1
        for number, (_, done) in enumerate(self.messages):
            done(DeliveryReport(self.partition, first_offset + step * number))


class BatchLimits(dict[str, int]):
    """How large batches for a topic may be, bytes, of those that take less than the client would send."""

    def on_refused(self, topic: str, size_bytes: int) -> None:
        """One of several messages was too large: half of it, until a message goes alone."""
        if topic not in self:
            logger.info("topic %s takes no batch of %d bytes: smaller ones are sent", topic, size_bytes)
        self[topic] = min(self.get(topic, size_bytes), size_bytes // 2)


def pack(
    waiting: Waiting,
    create: Callable[[], Any],
    targets: Targets,
    most_bytes: int | None = None,
    alone: int = 0,
) -> Iterator[MessageBatch]:
    """All that waits now, those of a partition in order, the first `alone` ones in a batch each.

    What has no key goes to any available partition, to one until its batch is full, as Kafka's clients do it.
    What names a partition that isn't among them is in no batch.
    """
    partitions, available = targets
    batches: dict[int, MessageBatch] = {}
    anywhere = random.choice(available)  # noqa: S311  # no secret
    for at in range(len(waiting)):
        outgoing = waiting.popleft()
        partition = _partition(outgoing[0], partitions, anywhere)
        if outgoing[0].partition is not None and partition not in partitions:
            yield MessageBatch.of([outgoing])
            continue
        if (batch := batches.get(partition)) is not None and batch.add(outgoing, most_bytes):
            continue
        new = MessageBatch(create(), partition)
        new.add(outgoing)
        if at < alone:
            yield new
            continue
        batches[partition] = new
        if batch is not None:
            anywhere = random.choice(available)  # noqa: S311
            yield batch
    yield from batches.values()


class NoAnswerError(KafkaError):  # type: ignore[misc]  # aiokafka is untyped
    """No broker says which partitions a topic has."""


async def targets_of(producer: Any, topic: str) -> Targets:
    """Of a topic, which stays known from then on. Raises KafkaError, such as NoAnswerError."""
    track(producer, topic)
    try:
        async with asyncio.timeout(_TOPIC_SECONDS):  # what the broker makes for who asks takes a moment
            partitions = sorted(await producer.partitions_for(topic))
    except (UnknownTopicOrPartitionError, TimeoutError):  # so it is too where the client could ask nobody
        if not await producer.client.force_metadata_update():
            raise NoAnswerError(topic) from None
        raise UnknownTopicOrPartitionError from None
    available = sorted(producer.client.cluster.available_partitions_for_topic(topic))
    return partitions, available or partitions


def _partition(message: Message, partitions: Sequence[int], anywhere: int) -> int:
    if message.partition is not None:
        return message.partition
    if message.key is None:
        return anywhere
    chosen: int = _by_key(message.key, partitions, partitions)
    return chosen

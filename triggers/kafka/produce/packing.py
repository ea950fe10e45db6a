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
from headrace.runtime.wire.produce import DeliveryReport, Message, Outgoing

logger = logging.getLogger(__name__)

Waiting = deque[Outgoing]
Targets = tuple[Sequence[int], Sequence[int]]
"""The partitions of a topic, and those of them that have a leader."""

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
        self.must_split = False
        """Whether one of its messages is refused: each goes alone next time."""

    @classmethod
    def of(cls, messages: Iterable[Outgoing]) -> "MessageBatch":
        """Return messages in no batch: they can't be written."""
        packed = cls(None, -1)
        packed.messages.extend(messages)
        return packed

    def add(self, outgoing: Outgoing, max_bytes: int | None = None) -> bool:
        """Add a message. Return False where the batch is full.

        The first one always fits, and a large one then is alone.
        """
        message, _ = outgoing
        headers = list(message.headers)
        if max_bytes is not None and self.messages:
            size_bytes = DefaultRecordBatchBuilder.estimate_size_in_bytes(message.key, message.value, headers)
            if self.builder.size() + size_bytes > max_bytes:
                return False
        added = self.builder.append(
            timestamp=message.timestamp, key=message.key, value=message.value, headers=headers
        )
        if added is not None:
            self.messages.append(outgoing)
        return added is not None

    def confirm(self, first_offset: int) -> None:
        """Tell the messages their offsets, from `first_offset` on; -1 where the broker doesn't say."""
        step = 0 if first_offset < 0 else 1
        for number, (_, done) in enumerate(self.messages):
            done(DeliveryReport(self.partition, first_offset + step * number))


class BatchLimits(dict[str, int]):
    """Bytes of a batch, by topic, for topics that take less than the client would send."""

    def on_refused(self, topic: str, size_bytes: int) -> None:
        """Halve a topic's limit: a batch of several messages was too large."""
        if topic not in self:
            logger.info("topic %s takes no batch of %d bytes: smaller ones are sent", topic, size_bytes)
        self[topic] = min(self.get(topic, size_bytes), size_bytes // 2)


def pack(
    waiting: Waiting,
    create: Callable[[], Any],
    targets: Targets,
    max_bytes: int | None = None,
    alone: int = 0,
) -> Iterator[MessageBatch]:
    """Yield batches of all that waits now, in order within each partition, the first `alone` messages singly.

    What has no key goes to any available partition, to one until its batch is full, as Kafka's clients do it.
    What names a partition that isn't among them is in no batch.
    """
    partitions, available = targets
    batches: dict[int, MessageBatch] = {}
    anywhere = random.choice(available)  # noqa: S311  # no secret
    for at in range(len(waiting)):
        outgoing = waiting.popleft()
        partition = _partition(outgoing[0], partitions, anywhere)
        # The topic is there, that partition isn't: only this message has failed.
        if outgoing[0].partition is not None and partition not in partitions:
            yield MessageBatch.of([outgoing])
            continue
        if (batch := batches.get(partition)) is not None and batch.add(outgoing, max_bytes):
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
    """Return a topic's partitions. The topic stays known from then on.

    Raises KafkaError, such as NoAnswerError.
    """
    track(producer, topic)
    try:
        async with asyncio.timeout(_TOPIC_SECONDS):  # what the broker makes for who asks takes a moment
            partitions = sorted(await producer.partitions_for(topic))
    except (UnknownTopicOrPartitionError, TimeoutError):  # so it is too where the client could ask nobody
        if not await producer.client.force_metadata_update():
            raise NoAnswerError(topic) from None
        raise UnknownTopicOrPartitionError from None
    # Messages without a key go where somebody leads; keys have their partition even where nobody does now.
    available = sorted(producer.client.cluster.available_partitions_for_topic(topic))
    return partitions, available or partitions


def _partition(message: Message, partitions: Sequence[int], anywhere: int) -> int:
    if message.partition is not None:
        return message.partition
    if message.key is None:
        return anywhere
    chosen: int = _by_key(message.key, partitions, partitions)
    return chosen

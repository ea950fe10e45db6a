"""Messages for one topic, packed by partition: a batch costs the client much less than its messages do."""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError
from aiokafka.partitioner import DefaultPartitioner

from headrace.runtime.partitions.books.held import Outgoing, Written
from headrace.runtime.wire.produce import Message

Waiting = deque[Outgoing]

_by_key = DefaultPartitioner()


class Packed:
    """Messages of one partition in a batch of aiokafka's, in order."""

    def __init__(self, builder: Any, partition: int) -> None:
        self.builder = builder
        self.partition = partition
        self.messages: list[Outgoing] = []

    @classmethod
    def of(cls, messages: Iterable[Outgoing]) -> "Packed":
        """In no batch: they can't be written."""
        packed = cls(None, -1)
        packed.messages.extend(messages)
        return packed

    def add(self, outgoing: Outgoing) -> bool:
        """False where it is full. The first one always fits, and a large one then is alone."""
        message, _ = outgoing
        added = self.builder.append(
            timestamp=message.timestamp,
            key=message.key,
            value=message.value,
            headers=list(message.headers),
        )
        if added is not None:
            self.messages.append(outgoing)
        return added is not None

    def confirm(self, first_offset: int) -> None:
        """It is written, from there on; -1 where the broker doesn't say."""
        step = 0 if first_offset < 0 else 1
        for number, (_, done) in enumerate(self.messages):
            done(Written(self.partition, first_offset + step * number))


def pack(
    waiting: Waiting, create: Callable[[], Any], partitions: Sequence[int], available: Sequence[int]
) -> Iterator[Packed]:
    """All that waits now, those of a partition in order.

    What has no key goes to any available partition, to one until its batch is full, as Kafka's clients do it.
    """
    batches: dict[int, Packed] = {}
    anywhere = random.choice(available)  # noqa: S311  # no secret
    for _ in range(len(waiting)):
        outgoing = waiting.popleft()
        partition = _partition(outgoing[0], partitions, anywhere)
        if (batch := batches.get(partition)) is not None and batch.add(outgoing):
            continue
        batches[partition] = new = Packed(create(), partition)
        new.add(outgoing)
        if batch is not None:
            anywhere = random.choice(available)  # noqa: S311
            yield batch
    yield from batches.values()


class NoAnswerError(KafkaError):  # type: ignore[misc]  # aiokafka is untyped
    """No broker says which partitions a topic has."""


async def targets(producer: Any, topic: str) -> tuple[Sequence[int], Sequence[int]]:
    """The partitions of a topic, and those that somebody leads. Raises KafkaError, such as NoAnswerError."""
    try:
        partitions = sorted(await producer.partitions_for(topic))
    except UnknownTopicOrPartitionError:  # so the client says too where it could ask nobody
        if not await producer.client.force_metadata_update():
            raise NoAnswerError(topic) from None
        raise
    available = sorted(producer.client.cluster.available_partitions_for_topic(topic))
    return partitions, available or partitions


def _partition(message: Message, partitions: Sequence[int], anywhere: int) -> int:
    if message.partition is not None:
        return message.partition
    if message.key is None:
        return anywhere
    chosen: int = _by_key(message.key, partitions, partitions)
    return chosen

"""Dead letters on their way back to the topics that they came from."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from headrace.runtime.errors import BrokerError
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.client import find_partitions, partitions_of
from headrace.runtime.kafka.dead_letter_producer import Copy, discard, start_producer, write_copy
from headrace.runtime.kafka.dead_letter_reader import DeadLetter

_CONFIRM_SECONDS = 30.0


class Replay:
    """Writes dead letters back, one at a time, and deletes nothing.

    To `sources` only: a record may say of itself what it likes. `to` is a topic that takes them all.
    """

    def __init__(
        self, brokers: BrokerAccess, producer: Any, sources: Collection[str], to: str | None
    ) -> None:
        self._sources = sources
        self._brokers = brokers
        self._producer = producer
        self._to = to
        self._partitions: dict[str, list[int]] = {}

    async def write(self, letter: DeadLetter) -> tuple[bool, str]:
        """Whether the broker has confirmed it, and a line that says where it is or why it was left out."""
        source = letter.provenance
        topic = self._to or (source and source.topic)
        if not topic:
            return False, f"{letter.place} skipped: it doesn't say where it comes from; --to names a topic"
        if not self._to and topic not in self._sources:
            return (
                False,
                f"{letter.place} skipped: it says it comes from {topic}; --source {topic} lets it go there",
            )
        partitions = await self._partitions_of(topic)
        if not partitions:
            return False, f"{letter.place} skipped: there is no topic {topic}; --to names another one"
        partition = _partition(letter, partitions)
        timestamp = source.timestamp if source else letter.record.timestamp
        # A header whose name is no UTF-8 stays spelled out: clients can't write the bytes back.
        copy = Copy(letter.record.key, letter.record.value, letter.headers, timestamp)
        offset = await self._confirmed(letter, topic, partition, copy)
        return True, f"{letter.place} -> {topic}/{partition} offset {offset}"

    async def _partitions_of(self, topic: str) -> list[int]:
        if topic not in self._partitions:
            self._partitions[topic] = await find_partitions(self._brokers, topic)
        return self._partitions[topic]

    async def _confirmed(self, letter: DeadLetter, topic: str, partition: int, copy: Copy) -> int:
        from aiokafka.errors import KafkaError

        try:
            async with asyncio.timeout(_CONFIRM_SECONDS):
                return await write_copy(self._producer, topic, partition, copy)
        except TimeoutError:
            why = f"did not confirm within {_CONFIRM_SECONDS:g} s"
        except KafkaError as error:
            why = f"refused: {error}"
        raise BrokerError(f"{letter.place} to {topic}/{partition}: the broker at {self._brokers} {why}")


def _partition(letter: DeadLetter, partitions: list[int]) -> int:
    """The one that it came from, so that order stays; by its key where there is none such."""
    from aiokafka.partitioner import DefaultPartitioner

    if letter.provenance is not None and letter.provenance.partition in partitions:
        return letter.provenance.partition
    return int(DefaultPartitioner()(letter.record.key, partitions, partitions))


@asynccontextmanager
async def replaying(brokers: BrokerAccess, sources: Collection[str], to: str | None) -> AsyncIterator[Replay]:
    """A replay to those of `sources` that the records came from, or to `to`. Raises BrokerError."""
    from aiokafka.errors import KafkaError

    if to is not None:
        await partitions_of(brokers, to)
    try:
        producer = await start_producer(brokers, "headrace-replay")
    except KafkaError as error:
        raise BrokerError(f"the broker at {brokers} lets nobody write: {error}") from error
    try:
        yield Replay(brokers, producer, sources, to)
    finally:
        await discard(producer)

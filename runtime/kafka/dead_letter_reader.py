"""A dead-letter topic, read from the outside: no group, no commits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from headrace.runtime.errors import BrokerError, UsageError, one_line
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.client import connected, partitions_of
from headrace.runtime.kafka.dead_letter_headers import Headers, Provenance, split_headers

_REQUEST_TIMEOUT_MS = 10_000
_POLL_MS = 1000
# 10 s without any progress, as long as a request may take.
_SILENT_POLLS = 10

PartitionOffset = tuple[int, int]
"""Partition and offset in the dead-letter topic."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record as it lies in the topic (aiokafka's), its own headers, and its provenance if it has one."""

    record: Any
    headers: Headers
    provenance: Provenance | None

    @property
    def place(self) -> str:
        """The record's partition and offset as people write them: PARTITION/OFFSET."""
        return f"{self.record.partition}/{self.record.offset}"


class DeadLetterTopic:
    """The content of a dead-letter topic when it was opened; later records aren't seen.

    `bounds` are [first, end) by partition.
    """

    def __init__(self, consumer: Any, name: str, bounds: dict[int, tuple[int, int]]) -> None:
        self._consumer = consumer
        self.name = name
        self.bounds = bounds

    async def get(self, place: PartitionOffset) -> DeadLetter:
        """Return one record. Raises UsageError where there is none."""
        partition, offset = place
        if partition not in self.bounds:
            raise UsageError(f"topic {self.name} has partitions 0 to {max(self.bounds)}: not {partition}")
        first, end = self.bounds[partition]
        if first <= offset < end:
            async for letter in self.read(partition, offset, offset + 1):
                return letter
        holds = f"holds offsets {first} to {end - 1}" if first < end else "is empty"
        raise UsageError(
            f"topic {self.name} has no record {partition}/{offset}: partition {partition} {holds}"
        )

    async def newest(self, limit: int) -> list[DeadLetter]:
        """Return at most `limit` records, by their timestamps, the oldest first."""
        # Of each partition as many as are asked for: the newest may all lie in one.
        found = [
            letter
            for partition, (first, end) in self.bounds.items()
            async for letter in self.read(partition, max(first, end - limit), end)
        ]
        found.sort(
            key=lambda letter: (letter.record.timestamp, letter.record.partition, letter.record.offset)
        )
        return found[-limit:]

    async def read(self, partition: int, first: int, end: int) -> AsyncIterator[DeadLetter]:
        """Yield the records of a partition with offsets in [first, end), in order."""
        from aiokafka import TopicPartition

        tp = TopicPartition(self.name, partition)
        self._consumer.assign([tp])
        self._consumer.seek(tp, first)
        silent_polls, position = 0, first
        while position < end:
            for record in await self._poll(tp):
                if record.offset < end:
                    yield DeadLetter(record, *split_headers(record.headers))
            # offsets without records, of transactions and compaction, move it too
            before, position = position, await self._consumer.position(tp)
            silent_polls = silent_polls + 1 if position == before else 0
            if silent_polls >= _SILENT_POLLS:
                raise BrokerError(
                    f"the broker gives no records of {self.name}/{partition} from {position} on"
                )

    async def _poll(self, tp: Any) -> list[Any]:
        from aiokafka.errors import KafkaError

        try:
            return list((await self._consumer.getmany(tp, timeout_ms=_POLL_MS)).get(tp, ()))
        except KafkaError:
            raise
        except Exception as error:  # the client decodes header names; each codec raises what it likes
            offset, why = await self._consumer.position(tp), one_line(str(error) or type(error).__name__)
            raise BrokerError(
                f"a record of {tp.topic}/{tp.partition}, at offset {offset} or in the batch of that one, "
                f"can't be decoded ({why}): those behind it are reached as {tp.partition}/OFFSET"
            ) from error


@asynccontextmanager
async def opened(brokers: BrokerAccess, name: str) -> AsyncIterator[DeadLetterTopic]:
    """Open the topic at these brokers. Raises BrokerError where there is none, or nobody answers."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    tps = [TopicPartition(name, number) for number in await partitions_of(brokers, name)]
    async with connected(AIOKafkaConsumer, brokers, request_timeout_ms=_REQUEST_TIMEOUT_MS) as reader:
        first, end = await reader.beginning_offsets(tps), await reader.end_offsets(tps)
        yield DeadLetterTopic(reader, name, {tp.partition: (first[tp], end[tp]) for tp in tps})

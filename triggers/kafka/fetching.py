"""Fetching: what has room, in bulk, and what to do where a fetch fails."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from headrace.runtime.dispatch.interface import Dispatch
from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.partitions.buffers.chunk import ChunkSlice
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.assignment import Assignment
from headrace.triggers.kafka.client import chunks, internals
from headrace.triggers.kafka.item_limit import ItemLimit

logger = logging.getLogger(__name__)

_FETCH_WAIT_SECONDS = 1.0
_RETRY_SECONDS = 1.0


class Fetching:
    """One loop for all partitions of an assignment. The client's keys are equal to ours: both are tuples."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        assignment: Assignment,
        dispatch: Dispatch,
        on_out_of_range: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        """`on_out_of_range` is told of positions, by partition, that no log has."""
        self._consumer = consumer
        self._assignment = assignment
        self._assigned = assignment.partitions
        self._dispatch = dispatch
        self._on_out_of_range = on_out_of_range
        self._wanted = internals.Wanted()
        self._tight: dict[PartitionKey, AssignedPartition] = {}  # wanted, with room for few
        self._item_limit = ItemLimit()

    def on_room(self, partition: AssignedPartition) -> None:
        """Fetch it, or not, and how much at most."""
        key, room = partition.key, partition.room
        if not room:
            self._wanted.discard(key)  # left undrained, not paused: pausing throws prefetched data away
        elif key not in self._wanted:
            self._wanted.add(TopicPartition(*key))
            internals.wake(self._consumer)
        if 0 < room < self._assignment.capacity // 2:
            self._tight[key] = partition
        else:
            self._tight.pop(key, None)

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        """Fetch these no more."""
        for key in keys:
            self._wanted.discard(key)
            self._tight.pop(key, None)

    async def run_forever(self) -> None:
        """Raises what waiting doesn't mend."""
        while True:
            max_records = self.max_records()
            try:
                fetched = await internals.fetch(
                    self._consumer, self._wanted, _FETCH_WAIT_SECONDS, max_records
                )
            except Exception as error:  # codecs raise what they like
                await self._mend(error)
                continue
            for key, found in fetched.items():
                self._take_in(self._assigned[key], found)
            if fetched:
                self._dispatch.dispatch()
                await asyncio.sleep(0)  # a fetch that finds records never waits; others must get a turn

    def max_records(self) -> int:
        """Of one fetch. The client limits it as a whole, so the smallest room limits all partitions."""
        for partition in list(self._tight.values()):
            self.on_room(partition)
        most = min(
            (partition.room for partition in self._tight.values()),
            default=max(1, self._assignment.capacity // 2),
        )
        if not self._assignment.are_chunks or not self._wanted:
            return most
        left_bytes = (self._assigned[key].left_bytes for key in self._wanted if key in self._assigned)
        return min(most, self._item_limit.items(left_bytes))

    def _take_in(self, partition: AssignedPartition, found: Sequence[Any]) -> None:
        if self._assignment.are_chunks:
            before_bytes = partition.left_bytes
            for records in chunks.pieces(found):
                self._assignment.add(partition, records, _average_bytes(records))
            self._item_limit.brought(len(found), before_bytes - partition.left_bytes)
        else:
            self._assignment.add(partition, found, _average_bytes(found))
        self.on_room(partition)

    # ---- where a fetch fails

    async def _mend(self, error: Exception) -> None:
        """Undo what it may have skipped, then deal with the cause, or raise it.

        aiokafka drops what it had drained from other partitions, after their positions moved: the ledgers
        would take the hole for compaction and settle it.
        """
        for key, partition in self._assigned.items():
            self._consumer.seek(TopicPartition(*key), partition.ledger.position)
        unreadable = internals.unreadable_record(error)
        if isinstance(error, OffsetOutOfRangeError):
            for tp in error.args[0]:
                self._wanted.discard(tp)  # until it is known where to go on: the others are fetched meanwhile
            self._on_out_of_range(error.args[0])
        elif unreadable is not None and (found := self._assigned.get(unreadable.tp)) is not None:
            await self.halt_at(found, unreadable.offset, error)
        elif isinstance(error, KafkaError) and error.retriable:
            logger.warning("fetching failed (%r); trying again", error)
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            raise error

    async def halt_at(self, partition: AssignedPartition, offset: int, error: Exception) -> None:
        """A record can't be decoded: deliver those before it, one fetch each, and stop there."""
        key = partition.key
        self._wanted.discard(key)
        alone = internals.Wanted({TopicPartition(*key)})
        with contextlib.suppress(Exception):  # the same record again, where offsets have holes
            while partition.ledger.position < offset and self._assigned.get(key) is partition:
                fetched = await internals.fetch(self._consumer, alone, _FETCH_WAIT_SECONDS, 1)
                for records in fetched.values():
                    # A fetch may outlast an assignment, and bring records of the next one.
                    if (now := self._assigned.get(key)) is not None:
                        for piece in chunks.pieces(records):
                            self._dispatch.add(now, piece)
        if self._assigned.get(key) is partition:
            self._dispatch.cut_off(partition, f"the record can't be decoded ({error})")
        if (now := self._assigned.get(key)) is not None:
            self.on_room(now)


def _average_bytes(records: Sequence[Any]) -> int:
    if isinstance(records, ChunkSlice):
        return records.chunk.record_bytes
    total: int = sum([record.serialized_value_size for record in records])
    return total // len(records)

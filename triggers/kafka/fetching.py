"""Fetching: what partitions have room for, in bulk, and what to do if a fetch fails."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, cast

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from headrace.runtime.dispatch.interface import Dispatch
from headrace.runtime.partitions.chunk import ChunkSlice
from headrace.runtime.partitions.flow_control import AHEAD_BYTES
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.streams.assignment import Assignment
from headrace.triggers.kafka.client import fetch_requests, fetches, internals, undecoded_fetch
from headrace.triggers.kafka.client.epochs import LeaderEpochs
from headrace.triggers.kafka.client.fetch_budget import FetchBudget
from headrace.triggers.kafka.client.undecoded_fetch import PIECE_BYTES
from headrace.triggers.kafka.settings.model import KafkaSettings

logger = logging.getLogger(__name__)

_FETCH_WAIT_SECONDS = 1.0
_RETRY_SECONDS = 1.0


class FetchItemLimit:
    """A bound on how many items one fetch may bring of a partition: records, or pieces of batches.

    The client counts items, but a partition's room is in bytes: the last fetches tell how large an item is.
    """

    def __init__(self) -> None:
        self._item_bytes = PIECE_BYTES

    def items(self, left_bytes: int) -> int:
        """Return how many items have place in so many bytes; one at least."""
        return max(1, left_bytes // self._item_bytes)

    def brought(self, count: int, size_bytes: int) -> None:
        """Note what a fetch has brought of one partition. Large items are remembered for some fetches."""
        self._item_bytes = max(1, size_bytes // count, self._item_bytes // 2)


class Fetching:
    """The fetch loop for all partitions of an assignment.

    A TopicPartition, the client's, and the PartitionKey of the same partition are equal, and have one hash,
    as both are tuples of topic and number: either one finds what a dict keeps by the other.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # what fetching is made of
        self,
        consumer: AIOKafkaConsumer,
        assignment: Assignment,
        dispatch: Dispatch,
        settings: KafkaSettings,
        epochs: LeaderEpochs,
        on_out_of_range: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        """`on_out_of_range` is called with positions, by partition, that their logs don't have."""
        self._consumer = consumer
        self._assignment = assignment
        self._assigned = assignment.partitions
        self._dispatch = dispatch
        self.epochs = epochs
        self._on_out_of_range = on_out_of_range
        self._settings = settings
        self.budget = FetchBudget(
            settings.max_buffered_bytes,
            settings.fetch_default_bytes,
            self._assigned,
            self._is_stalled,
            self._needs_more,
        )
        self._to_fetch = fetches.PartitionsToFetch()
        self._item_limit = FetchItemLimit()

    def install(self) -> None:
        """Have the consumer ask for no more than the budget allows, undecoded if workers decode."""
        consumer, settings, assignment = self._consumer, self._settings, self._assignment
        # Both wrap the same method of the fetcher; what `limit` makes goes around what `tune` makes.
        internals.tune(consumer, retry_seconds=settings.retry_backoff_seconds)
        fetch_requests.limit(consumer, self.budget)
        # Undecoded records are decoded by workers. Others are decoded here, and their bytes count besides the
        # bytes of answers.
        hold, max_batch_bytes = self.budget.hold, settings.max_batch_bytes
        if self._dispatch.policy.decoder:
            assignment.are_chunks = undecoded_fetch.fetch_undecoded(
                consumer, hold, max_batch_bytes, self.epochs.fetched
            )
            if not assignment.are_chunks:
                logger.warning(
                    "this aiokafka is unknown inside: records are decoded here, not in the workers"
                )
        if not assignment.are_chunks:
            undecoded_fetch.fetch_counted(consumer, hold, max_batch_bytes, self.epochs.fetched)
            self.leave_room_for_decoded()

    def wake(self) -> None:
        """Let a fetch that waits begin anew: what there is to fetch has changed."""
        fetches.wake(self._consumer)

    def on_room(self, partition: AssignedPartition) -> None:
        """Begin or stop fetching the partition, by whether it has room."""
        self._on_room(partition, partition.to_fetch)

    def _on_room(self, partition: AssignedPartition, room: int) -> None:
        key = partition.key
        if not room:
            self._to_fetch.discard(key)  # left undrained, not paused: pausing throws prefetched data away
        elif key not in self._to_fetch:
            self._to_fetch.add(TopicPartition(*key))
            fetches.wake(self._consumer)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the partitions' records that this process holds, or may get by open requests."""
        decoded = sum(partition.decoded_size[1] for partition in self._assigned.values())
        return self.budget.used_bytes + decoded

    def leave_room_for_decoded(self) -> None:
        """Keep bytes free for records that are decoded in this process: answers don't get those bytes.

        Half of all, or less once as many records as may be here are known to take less.
        """
        assignment, room_bytes = self._assignment, self._settings.max_buffered_bytes // 2
        if record_bytes := assignment.decoded_record_bytes:
            # Among chunks `waiting` bounds only records that wait: more of them may be at workers.
            bounds = assignment.bounds
            most = bounds.waiting + (bounds.acked_at_once if assignment.are_chunks else 0)
            room_bytes = min(room_bytes, len(self._assigned) * most * record_bytes)
        self.budget.max_bytes = self._settings.max_buffered_bytes - room_bytes

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        """Stop fetching these partitions, which have left."""
        for key in keys:
            self._to_fetch.discard(key)
            self.epochs.forget(TopicPartition(*key))

    async def run_forever(self) -> None:
        """Fetch until cancelled. Raises errors that waiting doesn't mend."""
        while True:
            await self._fetch()

    async def _fetch(self) -> None:
        """Fetch once. A method of its own, so that no local name keeps the last records alive."""
        try:
            fetched = await fetches.fetch(
                self._consumer, self._to_fetch, _FETCH_WAIT_SECONDS, self.max_items(), self.items_of
            )
        except Exception as error:  # codecs raise what they like
            await self._recover(error)
            return
        # A fetch brings partitions that were assigned when it returned: nothing was awaited since.
        for key, found in fetched.items():
            self._take_in(self._assigned[key], found)
        if fetched:
            self._dispatch.dispatch()
            await asyncio.sleep(0)  # a fetch that finds records never waits; others must get a turn

    def max_items(self) -> int:
        """Return how many items, records or pieces of batches, a fetch may bring: others must get a turn."""
        # Half of what a partition may hold: its bound holds exactly, and fetches come in bulk.
        half = max(1, self._assignment.bounds.waiting // 2)
        return min(half, self._item_limit.items(AHEAD_BYTES)) if self._assignment.are_chunks else half

    def items_of(self, key: PartitionKey) -> int:
        """Return how many items, records or pieces of batches, a fetch may bring of one partition.

        Also begins or stops fetching the partition, as its room may have changed since `on_room`.
        """
        partition = self._assigned.get(key)
        # In doubt: nothing of a new leader's epoch is taken in before it is known where the last epoch ended.
        if partition is None or key in self.epochs.doubted:
            return 0
        room = partition.to_fetch
        self._on_room(partition, room)
        # What comes undecoded is bounded by bytes, and the client counts items.
        is_bound = room and self._assignment.are_chunks
        return min(room, self._item_limit.items(partition.left_bytes)) if is_bound else room

    def _take_in(self, partition: AssignedPartition, found: Sequence[Any]) -> None:
        if self._assignment.are_chunks:
            # How much less room there is afterwards tells how large the items were. Not exactly if a batch is
            # full now: then less may be read ahead than before (ReadAhead), and the items seem larger.
            before_bytes = partition.left_bytes
            for records in undecoded_fetch.pieces(found):
                self._assignment.add(partition, records)
                if not isinstance(records, ChunkSlice):
                    self.leave_room_for_decoded()
            self._item_limit.brought(len(found), before_bytes - partition.left_bytes)
        else:
            self._assignment.add(partition, found)
            self.leave_room_for_decoded()
        self.on_room(partition)

    def _is_stalled(self, key: Hashable) -> bool:
        """Whether the partition stands until somebody acks, retries or skips, or its slow record ends."""
        partition = self._assigned.get(cast(PartitionKey, key))
        if self._needs_more(key):
            return True
        if partition is None or partition.to_fetch:
            return False
        lane = partition.lane
        return partition.is_paused or not (lane.out_count or lane.is_deliverable)

    def _needs_more(self, key: Hashable) -> bool:
        """Whether a batch that was planned before isn't here as a whole yet, however large it is."""
        partition = self._assigned.get(cast(PartitionKey, key))
        return partition is not None and partition.missing_of_plan > 0

    # ---- if a fetch fails

    async def _recover(self, error: Exception) -> None:
        """Undo what a failed fetch may have skipped, then deal with the cause, or raise it.

        aiokafka drops what it had drained from other partitions, after their positions moved: the ledgers
        would take the hole for compaction and settle it.
        """
        for key, partition in self._assigned.items():
            self._consumer.seek(TopicPartition(*key), partition.ledger.position)
        # The error names no record: which one it was is found in the traceback.
        unreadable = fetches.unreadable_record(error)
        if isinstance(error, OffsetOutOfRangeError):
            # The others are fetched while it isn't known where these go on.
            for tp in error.args[0]:
                self._to_fetch.discard(tp)
            self._on_out_of_range(error.args[0])
        elif unreadable is not None and (found := self._assigned.get(unreadable.tp)) is not None:
            await self.halt_at(found, unreadable.offset, error)
        elif isinstance(error, KafkaError) and error.retriable:
            logger.warning("fetching failed (%r); trying again", error)
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            raise error

    async def halt_at(self, partition: AssignedPartition, offset: int, error: Exception) -> None:
        """Deliver the records before one that can't be decoded, one by each fetch, and halt there."""
        key = partition.key
        self._to_fetch.discard(key)
        # One record by each fetch: one that meets the undecodable record loses what it has read before that.
        alone = fetches.PartitionsToFetch({TopicPartition(*key)})
        with contextlib.suppress(Exception):  # holes before the offset: it is met too early
            while partition.ledger.position < offset and self._assigned.get(key) is partition:
                fetched = await fetches.fetch(
                    self._consumer, alone, _FETCH_WAIT_SECONDS, 1, lambda tp: tp not in self.epochs.doubted
                )
                for records in fetched.values():
                    # A fetch may outlast an assignment, and bring records of the next one.
                    if (now := self._assigned.get(key)) is not None:
                        for piece in undecoded_fetch.pieces(records):
                            self._dispatch.add(now, piece)
        if self._assigned.get(key) is partition:
            self._dispatch.cut_off(partition, f"the record can't be decoded ({error})")
        if (now := self._assigned.get(key)) is not None:
            self.on_room(now)

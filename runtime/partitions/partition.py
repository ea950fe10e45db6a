"""An assigned partition: its offsets, its lane, and how much of it may be held."""

from collections.abc import Iterator

from headrace.runtime.partitions.chunk import ChunkSlice, Records
from headrace.runtime.partitions.flow_control import FlowLimit, ReadAhead, missing_of_plan
from headrace.runtime.partitions.key import NO_LOG, PartitionKey, PartitionLog
from headrace.runtime.partitions.keyed import KeyedLanes, KeyedOrdering
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.interval_set import Span
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.partitions.offsets.pending_produces import spans_without
from headrace.runtime.partitions.partition_lane import Buffer, PartitionLane
from headrace.runtime.partitions.partition_offsets import PartitionOffsets
from headrace.runtime.partitions.range_buffer import OffsetRange, RangeBuffer
from headrace.runtime.partitions.record_buffer import RecordBuffer, sizes_of
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.undecoded import UndecodableRecord


class AssignedPartition(PartitionOffsets):
    """The offsets of a partition, its lane, and its flow limit.

    Its dispatcher mutates it; whoever fetches adds records and reads the checkpoint. A new assignment makes a
    new object, so an outcome of an older one finds no ledger to move.
    """

    __slots__ = (
        "fetched_before",
        "is_replaced",
        "lane",
        "limit",
        "oldest_open_seconds",
        "oldest_unacked_seconds",
        "why_cut_off",
    )

    def __init__(  # noqa: PLR0913  # what a partition is made of
        self,
        key: PartitionKey,
        start: Checkpoint,
        limit: FlowLimit,
        buffer: Buffer,
        *,
        ordering: KeyedOrdering | None = None,
        ack_window_size: int = 0,
        log: PartitionLog = NO_LOG,
    ) -> None:
        """Go on from `start`. The functions below say which limit goes with which buffer.

        `ordering`: records may overtake each other; None: they are handled in order of offset.
        """
        super().__init__(key, start, log, holds_ranges=buffer.holds_ranges, ack_window_size=ack_window_size)
        self.lane = PartitionLane(self, buffer) if ordering is None else KeyedLanes(self, ordering)
        self.limit = limit
        """How many records may wait, and be handed out, by settings and by what they take."""
        self.is_replaced = False  # its log was cut or made anew: what it says must not be committed
        self.why_cut_off = ""  # why the record at ledger.position can't be read: nothing more is fetched
        self.fetched_before = 0  # where records end that are fetched again; workers have handled some
        # Written by the monitor: how long the same record has held up the commit, and how long the oldest
        # unacked one has waited.
        self.oldest_open_seconds = self.oldest_unacked_seconds = 0.0

    # ---- how much is here, and how much may come and go

    @property
    def unsettled(self) -> int:
        """How many records were fetched and are not settled: they wait, are in flight, or wait for an ack."""
        is_over = self.lane.state is PartitionState.REVOKED
        return self.lane.out_count if is_over else self.ledger.open_count

    @property
    def to_fetch(self) -> int:
        """How many records may be fetched now."""
        is_over = self.why_cut_off or self.is_paused or self.lane.state.is_final
        return 0 if is_over else self.limit.to_fetch(self.lane)

    @property
    def may_grow(self) -> bool:
        """Whether more records may join those that wait in the lane."""
        is_over = self.why_cut_off or self.is_paused or self.lane.state.is_final
        return not is_over and self.limit.may_grow(self.lane)

    @property
    def left_bytes(self) -> int:
        """How many bytes of chunks may still come; below 0 if a fetch has brought more than that."""
        return self.limit.left_bytes(self.lane)

    @property
    def missing_of_plan(self) -> int:
        """How many offsets are still to be fetched of the planned batch that goes next."""
        return missing_of_plan(self.lane)

    @property
    def to_hand_out(self) -> int:
        """How many of the records that wait may be handed out now, one by one."""
        # Orphans are fetched again once nothing is in flight. And while messages can't be written, more
        # records would only wait for the same output.
        is_held_up = self.awaiting_ack.has_orphans or self.pending.wait_count
        return 0 if is_held_up else self.limit.to_hand_out(self.lane)

    @property
    def left_in_flight(self) -> int:
        """How many records may be handed out by number alone, however many have overtaken others."""
        return 0 if self.pending.wait_count else self.limit.left_in_flight(self.lane)

    @property
    def waits_for_acks(self) -> bool:
        """Whether nothing more is handed out before somebody acks."""
        return bool(self.awaiting_ack) and self.limit.is_used_up(self.lane)

    @property
    def is_out_of_order(self) -> bool:
        """Whether as many records have overtaken others as a commit can tell of: no more may."""
        lane = self.lane
        is_full = lane.is_keyed and not self.limit.left_to_overtake(lane)
        return is_full and self.ledger.settled_span_count > lane.out_count

    @property
    def has_failed_waiting(self) -> bool:
        """Whether any of the records that failed last is still to be handled."""
        return any(offset in self.failed for offset in self.lane.failed_now)

    @property
    def decoded_size(self) -> tuple[int, int]:
        """How many decoded records wait, and about how many bytes they take."""
        buffers = [lane.buffer for lane in self.lane.parts]
        return sum(it.decoded_count for it in buffers), sum(it.decoded_bytes for it in buffers)

    # ---- what its source says

    def on_fetched(
        self, records: Records, max_record_bytes: int | None = None, now: float | None = None
    ) -> int:
        """Add records that came from the source, in order, after all that came before, at `now` in seconds.

        Records that can't be decoded, or have more than `max_record_bytes` (`fetchMax`), are not delivered:
        they fail when they are next. Returns about how many bytes each record takes while it waits; 0 if
        none has to wait.
        """
        if isinstance(records, ChunkSlice):
            self._add(records, now)
            self._refuse_large(records, max_record_bytes)
            return records.chunk.record_bytes
        count, size_bytes = self.decoded_size
        self._add(records, now)
        if UndecodableRecord in map(type, records):
            for record in records:
                if isinstance(record, UndecodableRecord):
                    self.refuse(record, record.why)
        self._refuse_large(records, max_record_bytes)
        new_count, new_size_bytes = self.decoded_size
        # The buffers have measured them already. None waits if all were acked before they came.
        return (new_size_bytes - size_bytes) // (new_count - count) if new_count > count else 0

    def _add(self, records: Records, now: float | None = None) -> None:
        """Add records to the ledger, then to the lane: only open ones wait there."""
        lane, ledger = self.lane, self.ledger
        if now is not None:  # None: they have come before
            lane.fetched_at = now
            if not lane.buffer.count:
                lane.waiting_since = now
        is_acked_ahead = ledger.has_ahead
        for first, end in lane.spans(records):
            ledger.add(first, end)
        if self.fetched_before:
            # Fetched for the second time: records that living workers have handled still wait for acks, and
            # aren't handed out again.
            lane.put(records, self.awaiting_ack.settled_in(ledger))
            if ledger.position >= self.fetched_before:
                self.fetched_before = 0
        elif is_acked_ahead:
            lane.put(records, ledger)
        else:
            lane.put(records)
        self.failed.forget_below(ledger.committable)

    def _refuse_large(self, records: Records, max_bytes: int | None) -> None:
        if max_bytes is not None and max(sizes := sizes_of(records), default=0) > max_bytes:
            for record, size in zip(records, sizes, strict=True):
                if size > max_bytes:
                    self.refuse(record, f"it has {size} bytes, more than fetchMax ({max_bytes}) allows")

    def advance(self, position: int) -> None:
        """Move the fetch on to `position`, as no record lies between, and forget failures below."""
        self.ledger.advance(position)
        self.failed.forget_below(self.ledger.committable)

    def extend(self, end: int, now: float | None = None) -> None:
        """Note that the log of a partition that nobody fetches ends at `end` now."""
        if end > self.ledger.position:
            self._add([OffsetRange(self.ledger.position, end)], now)

    # ---- what its dispatcher decides

    def on_acked(self, first: int, end: int) -> None:
        """Settle `[first, end)` wherever its records are now. They are not delivered again."""
        self.settle(first, end)
        for lane in self.lane.parts:
            lane.drop_settled(end)
        self.awaiting_ack.forget(first, end)
        if self.failed:
            self.failed.forget_within(first, end)
        if self.holds_ranges:
            self.plan.on_settled_below(self.ledger.committable)

    def ack_through(self, first: int, end: int) -> None:
        """Settle `[first, end)`, which an ack names, and all below but failed records that come again.

        A failure is an answer too, and a later one than the handler's return: `onFailure` decides on it.
        """
        self.failed.of(first)  # cuts it out of its span, if a commit has told of it among others
        failed = dict(self.failed.to_come_below(end))
        failed |= {at: self._end_of(at) for at in self.nacked if at < end}
        left_open = {at: stop for at, stop in failed.items() if at < first}
        for at in [it for it in self.pending.rejected if it < end]:
            left_open[at] = self._end_of(at)
            if at >= first:
                self.pending.note_acked(at)
        for span in list(spans_without([(0, end)], sorted(left_open.items()))):
            self.on_acked(*span)

    def redeliver(self) -> None:
        """Begin anew at the lowest open offset, as orphans have to come again.

        Called when nothing is in flight. All records that wait are dropped, and fetched again. Those that
        living workers have handled go on waiting for acks.
        """
        end = self.ledger.position
        self.awaiting_ack.drop_orphans()
        for first in [
            it for it in self.pending if not self.ledger.is_settled(it) and it not in self.awaiting_ack
        ]:
            self.pending.let_go(first)
        self.fetched_before = max(end, self.fetched_before)
        self.why_cut_off = ""  # what can't be read is found again
        self.lane.buffer.clear()
        # As if nothing were fetched yet: spans that are settled above the commit are settled ahead now.
        self.ledger = Ledger(self.ledger.committable, self.ledger.settled_spans())
        if self.holds_ranges:
            self.extend(end)

    def propose(self, part: PlannedBatches) -> None:
        """Plan the batch `part`, which is about to be committed, then handed out."""
        self.lane.become(PartitionState.PLANNING)
        self.plan.propose(part)

    def revoke(self) -> None:
        """Hand out no more records, ever."""
        self.plan.on_revoked()
        self.lane.revoke()

    # ---- ranges of offsets

    def acked_by(self, offset: int) -> int | None:
        """Return the first offset of the record or range that an ack of `offset` names.

        None if `offset` lies inside a range: an ack has to name the last one.
        """
        if not self.holds_ranges or self.ledger.is_settled(offset):
            return offset
        for first, end in self._open_ranges():
            if first <= offset < end:
                return first if offset == end - 1 else None
        return offset

    def _end_of(self, first: int) -> int:
        """Return the end of the record or range that begins at `first`."""
        ranges = self._open_ranges() if self.holds_ranges else ()
        return next((end for begin, end in ranges if begin == first), first + 1)

    def _open_ranges(self) -> Iterator[Span]:
        """Yield all ranges that somebody may hold an event of."""
        buffer = self.lane.buffer
        if isinstance(buffer, RangeBuffer):
            yield from buffer.spans(buffer.last_taken)
        yield from self.awaiting_ack.ranges()
        if self.plan.planned is not None:
            for first, end in self.plan.planned.batches:
                yield from self.ledger.unsettled_spans(first, end)
        for first, failed in self.failed.items():
            yield first, first + failed.span_from(first)


def of_records(
    key: PartitionKey, start: Checkpoint, capacity: int, ack_window_size: int = 0, log: PartitionLog = NO_LOG
) -> AssignedPartition:
    """Return a partition of decoded records, of which at most `capacity` are fetched and not settled."""
    limit = FlowLimit.of(capacity)
    return AssignedPartition(key, start, limit, RecordBuffer(), ack_window_size=ack_window_size, log=log)


def of_keys(
    key: PartitionKey, start: Checkpoint, capacity: int, ordering: KeyedOrdering, log: PartitionLog = NO_LOG
) -> AssignedPartition:
    """Return such a partition whose records of different keys, or all records, may overtake each other."""
    return AssignedPartition(key, start, FlowLimit.of(capacity), RecordBuffer(), ordering=ordering, log=log)


def of_chunks(  # noqa: PLR0913, PLR0917  # what a partition is made of
    key: PartitionKey,
    start: Checkpoint,
    capacity: int,
    ack_window_size: int,
    read_ahead: ReadAhead,
    log: PartitionLog = NO_LOG,
) -> AssignedPartition:
    """Return a partition of undecoded chunks: at most `capacity` records are handed out and not settled."""
    limit = FlowLimit.of(capacity, read_ahead)
    return AssignedPartition(key, start, limit, RecordBuffer(), ack_window_size=ack_window_size, log=log)


def of_ranges(key: PartitionKey, start: Checkpoint, log: PartitionLog = NO_LOG) -> AssignedPartition:
    """Return a partition of ranges of offsets, of records that nobody fetches."""
    return AssignedPartition(key, start, FlowLimit(0, 0, 0), RangeBuffer(), log=log)

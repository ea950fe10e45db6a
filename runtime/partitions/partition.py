"""One partition in one assignment: what is settled of it, what failed, what a commit says, and its lane."""

from collections.abc import Iterator, Sequence
from itertools import filterfalse, islice

from headrace.runtime.partitions.buffer import Buffer, Records, Span
from headrace.runtime.partitions.flow_control import (
    ChunkRoom,
    FlowLimit,
    LooseRoom,
    RangeRoom,
    ReadAhead,
    RecordRoom,
    Room,
)
from headrace.runtime.partitions.key import PartitionKey, PartitionLog
from headrace.runtime.partitions.keyed import KeyedLanes, KeyedOrdering
from headrace.runtime.partitions.offsets.ack_window import AckWindow
from headrace.runtime.partitions.offsets.awaiting_ack import AwaitingAck
from headrace.runtime.partitions.offsets.batch_plan import BatchPlan
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.failed_records import FailedRecord, FailedRecords
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.partitions.offsets.pending_produces import (
    PendingProduces,
    UnwrittenRecords,
    spans_without,
)
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.range_buffer import OffsetRange, RangeBuffer
from headrace.runtime.partitions.record_buffer import RecordBuffer
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.records import WireRecord

Nacked = dict[int, tuple[str, int]]
"""By first offset: why, and among how many records of its call that may be to blame."""


class AssignedPartition:
    """What is checkpointed (ledger, failed records, plan, ack window), and the lane that hands it out.

    Its dispatcher mutates it; whoever fetches adds records and reads the checkpoint. A new assignment makes a
    new object, so an outcome of an older one finds no ledger to move.
    """

    __slots__ = (
        "_room",
        "_window",
        "acks_at_once",
        "failed",
        "fetched_before",
        "held",
        "is_loose",
        "is_paused",
        "is_replaced",
        "key",
        "lane",
        "ledger",
        "log",
        "nacked",
        "oldest_open_seconds",
        "oldest_unacked_seconds",
        "plan",
        "unacked",
        "unwritten",
        "why_cut_off",
    )

    def __init__(
        self, key: PartitionKey, start: Checkpoint, room: Room, buffer: Buffer, ack_window_size: int = 0
    ) -> None:
        """Go on from `start`. The functions below say which room goes with which buffer."""
        self.key = key
        self.log = PartitionLog()  # its owner knows better
        self.ledger = Ledger(start.offset, start.acked)
        self.plan = BatchPlan(start.plan)
        self.failed = FailedRecords.from_attempts(start.attempts, are_ranges=buffer.holds_ranges)
        self.is_paused = False  # the record in flight takes so long that fetching more is of no use
        self.is_replaced = False  # its log was cut or made anew: what it says must not be committed
        self.why_cut_off = ""  # why the record at ledger.position can't be read: nothing more is fetched
        self.lane = PartitionLane(self, buffer)
        self.is_loose = False  # records of it may overtake each other
        self.unacked = AwaitingAck()
        self.acks_at_once = False  # what was handled last needed no ack any more
        self.nacked: Nacked = {}  # in flight, and failed whatever their handler says now
        self.held = PendingProduces()  # their handlers have produced what isn't written
        self.unwritten = UnwrittenRecords()  # a message of theirs was refused
        self.fetched_before = 0  # what comes again ends here; workers have handled some of it
        # By who looks at it: how long the same record has held up the commit, and one has waited for its ack.
        self.oldest_open_seconds = self.oldest_unacked_seconds = 0.0
        self._room = room
        self._window = AckWindow(ack_window_size)

    def __str__(self) -> str:
        return str(self.key)

    # ---- what is so

    @property
    def bounds(self) -> FlowLimit:
        """How many records may wait, and be handed out: by settings and what they take."""
        return self._room.bounds

    @bounds.setter
    def bounds(self, bounds: FlowLimit) -> None:
        """Its records are larger or smaller than was thought."""
        self._room.bounds = bounds

    @property
    def unsettled(self) -> int:
        """Records that were fetched and are not settled: waiting, in flight, or unacked."""
        is_over = self.lane.state is PartitionState.REVOKED
        return self.lane.out_count if is_over else self.ledger.open_count

    @property
    def room(self) -> int:
        """How many records may be fetched now."""
        is_over = self.why_cut_off or self.is_paused or self.lane.state.is_final
        return 0 if is_over else self._room.to_fetch(self)

    @property
    def may_grow(self) -> bool:
        """Whether more may come to what waits in its lane."""
        is_over = self.why_cut_off or self.is_paused or self.lane.state.is_final
        return not is_over and self._room.may_grow(self)

    @property
    def left_bytes(self) -> int:
        """How much more may wait in its lane, of chunks; below 0 where a fetch has brought more than that."""
        return self._room.left_bytes(self)

    @property
    def to_hand_out(self) -> int:
        """How many of those that wait may be handed out now, one by one."""
        is_held_up = self.unacked.has_orphans or self.held.wait_count
        return 0 if is_held_up else self._room.to_hand_out(self)

    @property
    def left_in_flight(self) -> int:
        """How many by number alone, whatever has to be kept in order."""
        return 0 if self.held.wait_count else self._room.left_in_flight(self)

    @property
    def waits_for_acks(self) -> bool:
        """Nothing more of it is handed out before somebody acks."""
        return bool(self.unacked) and self._room.is_used_up(self)

    @property
    def checkpoint(self) -> Checkpoint:
        """What a commit may say now."""
        offset, acked = self._window.hold_back(self.ledger.committable, self.ledger.settled_spans())
        if self.held:
            offset, acked = self.held.hold_back(offset, acked)
        if acked and acked[0][0] == offset:  # acked before it was fetched
            offset = acked.pop(0)[1]
        return Checkpoint(offset, self.failed.attempts(offset), self.plan.plan, tuple(acked))

    def acked_by(self, offset: int) -> int | None:
        """The first offset of what an ack of `offset` names; None inside a range, where no ack may be."""
        if not self.lane.buffer.holds_ranges or self.ledger.is_settled(offset):
            return offset
        for first, end in _open_ranges(self):
            if first <= offset < end:
                return first if offset == end - 1 else None
        return offset

    # ---- what happens to it

    def on_fetched(self, records: Records) -> None:
        """Records came from the source, in order, after all that came before: ledger first, then buffer."""
        ledger = self.ledger
        is_acked_ahead = ledger.has_ahead
        for first, end in self.lane.spans(records):
            ledger.add(first, end)
        if self.fetched_before:
            self.lane.put_open(records, self.unacked.settled_in(ledger))
            if ledger.position >= self.fetched_before:
                self.fetched_before = 0
        elif is_acked_ahead:
            self.lane.put_open(records, ledger)
        else:
            self.lane.put(records)
        self.failed.forget_below(ledger.committable)

    def advance(self, position: int) -> None:
        """The fetch moved to `position` and found no record on the way: what is gone can't fail any more."""
        self.ledger.advance(position)
        self.failed.forget_below(self.ledger.committable)

    def extend(self, end: int) -> None:
        """Its log, which nobody fetches, ends at `end` now."""
        if end > self.ledger.position:
            self.on_fetched([OffsetRange(self.ledger.position, end)])

    def on_acked(self, first: int, end: int) -> None:
        """`[first, end)` is settled, wherever its records are now. They are not delivered again."""
        self.settle(first, end)
        for lane in self.lane.parts:
            lane.drop_settled(end)
        self.unacked.forget(first, end)
        if self.failed:
            self.failed.forget_within(first, end)
        if self.lane.buffer.holds_ranges:
            self.plan.on_settled_below(self.ledger.committable)

    def take_back(self, first: int, end: int, failures: int) -> None:
        """Whatever settled `[first, end)`, its handler or an ack, is void: it is open again.

        `failures` of its deliveries had failed before. Where else it is known: docs/design/back-to-open.md.
        """
        self.ledger.reopen(first, end)
        self._window.on_reopened(first, end)
        if failures:
            self.failed[first] = FailedRecord(failures)

    def redeliver(self) -> None:
        """Begin anew at what is open, for the sake of orphans: what others have handled stays theirs.

        Nothing is in flight. All that waits is dropped, and fetched again, from the ledger's position on.
        """
        end = self.ledger.position
        self.unacked.drop_orphans()
        for first in [it for it in self.held if not self.ledger.is_settled(it) and it not in self.unacked]:
            self.held.let_go(first)
        self.fetched_before = max(end, self.fetched_before)
        self.why_cut_off = ""  # what can't be read is found again
        self.lane.buffer.clear()
        self.ledger = Ledger(self.ledger.committable, self.ledger.settled_spans())
        if self.lane.buffer.holds_ranges:
            self.extend(end)

    def propose(self, part: PlannedBatches) -> None:
        """A batch with `part` of it is about to be committed, then handed out."""
        self.lane.become(PartitionState.PLANNING)
        self.plan.propose(part)

    def refuse(self, record: WireRecord, reason: str) -> None:
        """It was fetched and must not be delivered."""
        self.plan.drop_at(record.offset)
        if self.ledger.is_open(record.offset):  # else it is settled already
            self.failed.refuse(record.offset, reason)

    def revoke(self) -> None:
        """No more of it is handed out, ever."""
        self.plan.on_revoked()
        self.lane.revoke()

    # ---- Books: what its lane tells it

    def settle(self, first: int, end: int) -> None:
        """Succeeded, acked, or given up."""
        ledger = self.ledger
        if size := self._window.size:
            newest_first = reversed(range(max(first, ledger.committable), end))
            newest = list(islice(filterfalse(ledger.is_settled, newest_first), size))
            self._window.on_settled(reversed(newest))
        ledger.settle(first, end)
        if self.unwritten:
            self.unwritten.forget_within(first, end)

    def note_unacked(self, firsts: Sequence[int]) -> None:
        """These succeeded, and wait for their acks."""
        self.acks_at_once = not any(self.ledger.open_spans(firsts[0], firsts[-1] + 1))
        if not self.acks_at_once:
            self.unacked.add(filter(self.ledger.is_open, firsts), self.lane.worker_index)
        if self.lane.buffer.holds_ranges:
            self.unacked.add_ends(self.lane.buffer.spans(self.lane.buffer.given))
        if self.failed and self.lane.buffer.holds_ranges:
            self.failed.forget(firsts)  # else they may still be nacked
        elif self.failed:
            self.failed.note_handled(firsts)
        for first in self.unwritten.take_handled(firsts) if self.unwritten else ():
            self.on_acked(first, self.unacked.end_of(first))

    def note_failed(self, units: Sequence[Span], reason: str, among: int) -> list[int]:
        """The first offsets of those that are open: else they were acked."""
        are_ranges = self.lane.buffer.holds_ranges
        still_open = [unit for unit in units if self.ledger.is_open(unit[0])]
        for first, end in still_open:
            self.failed.note_failure(first, reason, among, end if are_ranges else None)
        if still_open and not are_ranges:  # a range comes again as it was
            self.plan.on_failed(still_open)
        return [first for first, _ in still_open]

    def note_suspected(self, units: Sequence[Span]) -> None:
        """One of these has killed its worker."""
        are_ranges = self.lane.buffer.holds_ranges
        if not self.plan.may_repeat_after_death():
            self.plan.drop_started()
            for first, end in units:
                self.failed.note_suspect(first, end if are_ranges else None)


def ack_through(partition: AssignedPartition, first: int, end: int) -> None:
    """`[first, end)` is acked by name, and with it all below, but for what has failed and comes again.

    A failure is an answer too, and a later one than the handler's return: `onFailure` decides on it.
    """
    partition.failed.of(first)  # by itself, where a commit has told of it among others
    failed = dict(partition.failed.to_come_below(end))
    failed |= {at: _end_of(partition, at) for at in partition.nacked if at < end}
    left_open = {at: stop for at, stop in failed.items() if at < first}
    for at in [it for it in partition.unwritten if it < end]:
        left_open[at] = _end_of(partition, at)
        if at >= first:
            partition.unwritten.note_acked(at)
    for span in list(spans_without([(0, end)], sorted(left_open.items()))):
        partition.on_acked(*span)


def of_records(
    key: PartitionKey, start: Checkpoint, capacity: int, ack_window_size: int = 0
) -> AssignedPartition:
    """Decoded records, of which at most `capacity` are fetched and not settled."""
    room = RecordRoom(FlowLimit.of(capacity))
    return AssignedPartition(key, start, room, RecordBuffer(), ack_window_size)


def of_keys(
    key: PartitionKey, start: Checkpoint, capacity: int, ordering: KeyedOrdering
) -> AssignedPartition:
    """As `of_records`, where records of different keys, or all of them, may overtake each other."""
    partition = AssignedPartition(key, start, LooseRoom(FlowLimit.of(capacity)), RecordBuffer())
    partition.lane, partition.is_loose = KeyedLanes(partition, ordering), True
    return partition


def of_chunks(
    key: PartitionKey, start: Checkpoint, capacity: int, ack_window_size: int, ahead: ReadAhead
) -> AssignedPartition:
    """Undecoded chunks: at most `capacity` records are handed out and not settled, and so much waits."""
    room = ChunkRoom(FlowLimit.of(capacity), ahead)
    return AssignedPartition(key, start, room, RecordBuffer(), ack_window_size)


def of_ranges(key: PartitionKey, start: Checkpoint) -> AssignedPartition:
    """Ranges of offsets, of records that nobody fetches."""
    return AssignedPartition(key, start, RangeRoom(), RangeBuffer())


def _end_of(partition: AssignedPartition, first: int) -> int:
    """Of the record or range that begins there."""
    ranges = _open_ranges(partition) if partition.lane.buffer.holds_ranges else ()
    return next((end for begin, end in ranges if begin == first), first + 1)


def _open_ranges(partition: AssignedPartition) -> Iterator[Span]:
    """All that somebody may hold an event of."""
    yield from partition.lane.buffer.spans(partition.lane.buffer.given)
    yield from partition.unacked.ranges()
    if partition.plan.plan is not None:
        for first, end in partition.plan.plan.batches:
            yield from partition.ledger.unsettled_spans(first, end)
    for first, failed in partition.failed.items():
        yield first, first + failed.span_from(first)

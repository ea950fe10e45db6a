"""The lane of a partition that is handled in order: records that wait, and those in flight at one worker."""

from collections.abc import Callable, Collection, Sequence
from itertools import count
from typing import ClassVar

from headrace.runtime.partitions.chunk import Chunk, ChunkRecord, Records
from headrace.runtime.partitions.lane import CutShort, Lane, next_lane_id
from headrace.runtime.partitions.offsets.interval_set import Span
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.partitions.partition_offsets import PartitionOffsets
from headrace.runtime.partitions.range_buffer import RangeBuffer
from headrace.runtime.partitions.record_buffer import RecordBuffer
from headrace.runtime.partitions.state import TRANSITIONS, PartitionState
from headrace.runtime.wire.records import WireRecord

Buffer = RecordBuffer | RangeBuffer

_ORDERS = count(1)
_ENDS = (PartitionState.WRITING_DEAD_LETTER, PartitionState.HALTED)
_MAY_DECIDE_ANEW = (PartitionState.ACTIVE, PartitionState.BACKOFF, PartitionState.HALTED)
"""States in which a failure is decided on at once. A dead letter that is being written is waited for."""


class PartitionLane(Lane):
    """A buffer of records that wait, all open in the ledger, and a count of those in flight.

    From the moment that some records are asked to come back, or one has failed, nothing is handed out until
    the last one in flight is settled or back.
    """

    __slots__ = (
        "_is_alone",
        "_returned",
        "buffer",
        "ending",
        "epoch",
        "failed_now",
        "fetched_at",
        "first_offsets",
        "id",
        "in_flight_count",
        "is_recalled",
        "is_undecided",
        "key",
        "log",
        "offsets",
        "spans",
        "state",
        "stuck_order",
        "waiting_since",
        "why_stuck",
        "worker_index",
    )
    # Those of the buffer, with no call between: they are asked for each run.
    first_offsets: Callable[[Records], Sequence[int]]
    spans: Callable[[Records], Sequence[Span]]
    is_keyed: ClassVar[bool] = False
    """Whether its records are in lanes of their keys, and may overtake each other."""

    def __init__(self, offsets: PartitionOffsets, buffer: Buffer) -> None:
        self.id = next_lane_id()
        self.key = offsets.key
        self.log = offsets.log.stamp
        self.offsets = offsets
        self.buffer = buffer
        self.first_offsets, self.spans = buffer.first_offsets, buffer.spans
        self.waiting_since = 0.0  # on the dispatcher's clock: when the first record to hand out came
        self.fetched_at = 0.0  # on the same clock: when the last record came
        self.epoch = 0
        self.state = PartitionState.ACTIVE
        self.why_stuck = ""  # the reason, while the head record waits for somebody to do something
        self.stuck_order = 0  # of several lanes, which was stuck first
        self.worker_index: int | None = None
        self.in_flight_count = 0
        self.is_recalled = False
        self.failed_now: list[int] = []  # first offsets that failed since the last hand-out
        self.is_undecided = False  # whether a decision on some of them is still to come
        self.ending: WireRecord | None = None  # the record that is becoming a dead letter, or halts the lane
        self._returned: list[Records] = []
        self._is_alone = False  # whether nothing may go behind the records in flight

    # ---- what waits

    @property
    def parts(self) -> Collection["PartitionLane"]:
        """The lanes that records of the partition are in."""
        return (self,)

    @property
    def next_offset(self) -> int | None:
        """The lowest offset that waits, in all parts."""
        return self.buffer.next_offset

    @property
    def out_count(self) -> int:
        """How many records are at workers, of all parts."""
        return self.in_flight_count

    @property
    def is_idle(self) -> bool:
        """Whether no record is held here, but for those that wait for an ack."""
        return not (self.buffer.count or self.in_flight_count or self._returned)

    @property
    def is_deliverable(self) -> bool:
        """Whether the next record may be handed out now. One that failed goes alone."""
        if self.state is not PartitionState.ACTIVE or not self.buffer.count or not self.offsets.to_hand_out:
            return False
        if not self.in_flight_count:
            return True
        # Nothing is handed out while lower records are about to come back: it would overtake them.
        return not (self.is_recalled or self._is_alone or self.buffer.next_offset in self.offsets.failed)

    @property
    def is_head_refused(self) -> bool:
        """Whether the next record must not be delivered."""
        failed, offset = self.offsets.failed, self.buffer.next_offset
        return bool(failed) and offset is not None and failed.is_refused(offset)

    @property
    def goes_alone(self) -> bool:
        """Whether the next record may have killed its worker, and is to be delivered all the same."""
        failed, offset = self.offsets.failed, self.buffer.next_offset
        if not failed or offset is None or failed.is_refused(offset):
            return False
        return failed.batch_limit(offset) is not None

    @property
    def next_chunk(self) -> Chunk | None:
        """The chunk that the next record is part of; None if it is decoded."""
        return head.chunk if isinstance(head := self.buffer.head, ChunkRecord) else None

    @property
    def has_failed(self) -> bool:
        """Whether some record of the partition may be at another attempt than the first."""
        return bool(self.offsets.failed)

    def attempt(self, record: WireRecord) -> int:
        """Return the number of this delivery of the record, from 1."""
        failed = self.offsets.failed
        return failed.attempt(self.buffer.first_offsets([record])[0]) if failed else 1

    # ---- what is fetched

    def put(self, records: Records, ledger: Ledger | None = None) -> None:
        """Add records that were fetched, after all others; with a ledger, those that are open in it."""
        if ledger is None:
            self.buffer.append(records)
        else:
            self.buffer.append_open(records, ledger)

    def drop_settled(self, end: int) -> None:
        """Drop records that wait here and were settled, below `end`."""
        next_offset = self.buffer.next_offset
        if next_offset is not None and next_offset < end:
            self.buffer.keep_open(self.offsets.ledger)

    # ---- what is handed out

    def become(self, state: PartitionState, why_stuck: str = "") -> None:
        """Change the state. AssertionError if TRANSITIONS doesn't have the change."""
        assert state is self.state or state in TRANSITIONS[self.state], (self.state, state)
        if not self.why_stuck:
            self.stuck_order = next(_ORDERS)
        self.state, self.why_stuck = state, why_stuck
        if state not in _ENDS:
            self.ending = None
        elif self.ending is None:
            self.ending = self.buffer.head

    def take(self, limit: int, byte_limit: int) -> Records:
        """Remove and return the next records, to be handed out one by one: at least one.

        One that failed goes alone.
        """
        offsets = self.offsets
        offsets.plan.planned = None  # an earlier owner handed out batches
        if offsets.failed:
            first = self.buffer.span_of_first(1)[0]
            limit, self._is_alone = offsets.failed.limit_run(first, limit, self.buffer.count_below)
        return self._hand_out(self.buffer.take(max(1, min(limit, offsets.to_hand_out)), byte_limit))

    def take_batch(self, end: int) -> list[Records]:
        """Remove and return the records before offset `end`, by sequences: this lane's part of a batch."""
        offsets, first = self.offsets, self.buffer.next_offset
        taken = self.buffer.take_below(end)
        if taken and first is not None and offsets.failed and offsets.failed.split(first, end):
            offsets.pending.split(first, end)
        offsets.plan.on_taken(first)
        self.waiting_since = self.fetched_at
        self._is_alone = True
        for records in taken:
            self._hand_out(records)
        return taken

    def _hand_out(self, records: Records) -> Records:
        self.in_flight_count += len(records)
        self.failed_now.clear()
        pending = self.offsets.pending
        if pending or pending.rejected:  # messages of an earlier delivery count no more
            for first, end in _units(self.buffer, records):
                pending.on_handed_out(first, end)
        return records

    # ---- what becomes of it

    def on_settled(self, records: Records) -> None:
        """Settle records that were in flight, follow each other, and succeeded."""
        offsets = self.offsets
        # Nearly always the ledger itself: this is done for each run, or each record.
        is_noted = offsets.ack_window_size or offsets.pending.rejected
        settle = offsets.settle if is_noted else offsets.ledger.settle
        for first, end in self.buffer.spans(records):
            settle(first, end)
        if offsets.failed:
            offsets.failed.forget(self.buffer.first_offsets(records))
        self._leave(len(records))

    def on_unacked(self, records: Records) -> None:
        """Note that records that were in flight went well, and stay open until they are acked."""
        buffer = self.buffer
        ranges = buffer.spans(buffer.last_taken) if isinstance(buffer, RangeBuffer) else ()
        self.offsets.note_handled(buffer.first_offsets(records), self.whole.worker_index, ranges)
        self._leave(len(records))

    def on_cut_short(self, why: CutShort) -> None:
        """Note that the handler that runs won't end by itself."""
        if why == "died":
            self.offsets.plan.on_died()

    def on_failed(self, records: Records, reason: str, among: int) -> None:
        """Note that records in flight failed in a call with `among` records.

        `on_returned` is still to come.
        """
        self.epoch += 1
        self.is_undecided = True
        if self.state in _MAY_DECIDE_ANEW:
            self.become(PartitionState.RETURNING)
        self.failed_now += self.offsets.note_failed(_units(self.buffer, records), reason, among)

    def on_suspected(self, records: Records) -> None:
        """Note that a worker's process ended with these records started, and that each may be to blame.

        `on_returned` is still to come.
        """
        self.offsets.note_suspected(_units(self.buffer, records))

    def on_returned(self, records: Records) -> None:
        """Take back records that were in flight, to be handed out once nothing is in flight any more."""
        self._returned.append(records)
        pending = self.offsets.pending
        for first in self.buffer.first_offsets(records) if pending.rejected else ():
            pending.note_returned(first)
        self._leave(len(records))

    def revoke(self) -> None:
        """Hand out no more records, ever; those that wait are dropped, and stay open in the ledger."""
        self.become(PartitionState.REVOKED)
        self.buffer.clear()

    def _leave(self, count: int) -> None:
        self.in_flight_count -= count
        self.offsets.is_paused = False
        if self.in_flight_count:
            return
        self.is_recalled = self._is_alone = False
        returned, self._returned = self._returned, []
        if not returned:
            # Of ranges the plan stays until their acks come: the next owner has to repeat them as they were.
            self.offsets.plan.on_outcome(is_kept=self.buffer.holds_ranges and bool(self.offsets.awaiting_ack))
        elif self.state is not PartitionState.REVOKED:
            # They came back in several messages, in any order.
            self.buffer.put_back(sorted(returned, key=lambda records: records[0].offset), self.offsets.ledger)


def _units(buffer: Buffer, records: Records) -> list[Span]:
    """Return the span of each record, or range, by itself."""
    if buffer.holds_ranges:
        return list(buffer.spans(records))
    return [(first, first + 1) for first in buffer.first_offsets(records)]

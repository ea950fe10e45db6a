"""The lane of a partition that is handled in order: what waits of it, and what is in flight at one worker."""

from collections.abc import Collection
from itertools import count

from headrace.runtime.partitions.buffer import Buffer, Records, Span
from headrace.runtime.partitions.lane import CutShort, next_lane_id
from headrace.runtime.partitions.state import TRANSITIONS, PartitionState
from headrace.runtime.partitions.waiting_lane import Books, WaitingLane
from headrace.runtime.wire.records import WireRecord

_ORDERS = count(1)
_ENDS = (PartitionState.WRITING_DEAD_LETTER, PartitionState.HALTED)
_MAY_DECIDE_ANEW = (PartitionState.ACTIVE, PartitionState.BACKOFF, PartitionState.HALTED)
"""A dead letter that is being written is waited for."""


class PartitionLane(WaitingLane):
    """Keeps Lane. What waits in its buffer is open in the ledger.

    From the moment that some records are asked to come back, or one has failed, nothing is handed out until
    the last one in flight is settled or back.
    """

    __slots__ = (
        "_is_alone",
        "_returned",
        "ending",
        "epoch",
        "failed_now",
        "id",
        "in_flight_count",
        "is_recalled",
        "is_undecided",
        "state",
        "stuck_order",
        "why_stuck",
        "worker_index",
    )

    def __init__(self, books: Books, buffer: Buffer) -> None:
        super().__init__(books, buffer)
        self.id = next_lane_id()
        self.epoch = 0
        self.state = PartitionState.ACTIVE
        self.why_stuck = ""  # what holds up the head record, for as long as only somebody's hand helps
        self.stuck_order = 0  # of several lanes, which was stuck first
        self.worker_index: int | None = None
        self.in_flight_count = 0
        self.is_recalled = False
        self.failed_now: list[int] = []  # what failed since something was handed out last
        self.is_undecided = False  # what becomes of some of these is still to be decided
        self.ending: WireRecord | None = None  # must not be delivered: what becomes of it is under way
        self._returned: list[Records] = []
        self._is_alone = False  # nothing goes behind what is in flight

    # ---- what is so

    @property
    def parts(self) -> Collection["PartitionLane"]:
        """The lanes that records of the partition are in."""
        return (self,)

    @property
    def out_count(self) -> int:
        """Records at workers, of all parts."""
        return self.in_flight_count

    @property
    def is_idle(self) -> bool:
        """No record of it is held here, but for those that wait for an ack."""
        return not (self.buffer.count or self.in_flight_count or self._returned)

    @property
    def is_deliverable(self) -> bool:
        """Whether the next record may be handed out now. One that failed goes alone."""
        if self.state is not PartitionState.ACTIVE or not self.buffer.count or not self._books.to_hand_out:
            return False
        if not self.in_flight_count:
            return True
        return not (self.is_recalled or self._is_alone or self.buffer.next_offset in self._books.failed)

    @property
    def has_failed_waiting(self) -> bool:
        """What failed last is still to be handled."""
        return any(offset in self._books.failed for offset in self.failed_now)

    # ---- what happens to it

    def become(self, state: PartitionState, why_stuck: str = "") -> None:
        """The one place where its state changes. AssertionError where the table doesn't have the change."""
        assert state is self.state or state in TRANSITIONS[self.state], (self.state, state)
        if not self.why_stuck:
            self.stuck_order = next(_ORDERS)
        self.state, self.why_stuck = state, why_stuck
        if state not in _ENDS:
            self.ending = None
        elif self.ending is None:
            self.ending = self.buffer.head

    def take(self, limit: int, byte_limit: int) -> Records:
        """The next records to hand out, one by one: at least one. One that failed goes alone."""
        self._books.plan.plan = None  # an earlier owner handed out batches
        if self._books.failed:
            first = self.buffer.span_of_first(1)[0]
            limit, self._is_alone = self._books.failed.limit_run(first, limit, self.buffer.count_below)
        return self._handed_out(self.buffer.take(max(1, min(limit, self._books.to_hand_out)), byte_limit))

    def take_batch(self, end: int) -> list[Records]:
        """The records before offset `end`, this lane's part of a batch: by the sequences that they are in."""
        first = self.buffer.next_offset
        taken = self.buffer.take_below(end)
        if taken and first is not None and self._books.failed and self._books.failed.split(first, end):
            self._books.unwritten.split(first, end)
        self._books.plan.on_taken(first)
        self.waiting_since = self.fetched_at
        self._is_alone = True
        for records in taken:
            self._handed_out(records)
        return taken

    def on_sent(self, worker_index: int) -> None:
        """What was taken last goes to this worker."""
        self.worker_index = worker_index

    def on_recalled(self) -> None:
        """What hasn't started was asked to come back."""
        self.is_recalled = True

    def on_settled(self, records: Records) -> None:
        """These were in flight, follow each other, and succeeded."""
        for first, end in self.buffer.spans(records):
            self._books.settle(first, end)
        if self._books.failed:
            self._books.failed.forget(self.buffer.first_offsets(records))
        self._left(len(records))

    def on_unacked(self, records: Records) -> None:
        """These were in flight, went well, and stay open until they are acked."""
        self._books.note_unacked(self.buffer.first_offsets(records))
        self._left(len(records))

    def on_cut_short(self, why: CutShort) -> None:
        """As Lane says."""
        if why == "died":
            self._books.plan.on_died()

    def on_failed(self, records: Records, reason: str, among: int) -> None:
        """These were in flight, and failed in a call with `among` records. `on_returned` is still to come."""
        self.epoch += 1
        self.is_undecided = True
        if self.state in _MAY_DECIDE_ANEW:
            self.become(PartitionState.RETURNING)
        self.failed_now += self._books.note_failed(_units(self.buffer, records), reason, among)

    def on_suspected(self, records: Records) -> None:
        """A worker died by itself with these started. `on_returned` is still to come."""
        self._books.note_suspected(_units(self.buffer, records))

    def on_returned(self, records: Records) -> None:
        """These were in flight and are to be handed out again, once nothing is in flight any more."""
        self._returned.append(records)
        for first in self.buffer.first_offsets(records) if self._books.unwritten else ():
            self._books.unwritten.note_returned(first)
        self._left(len(records))

    def revoke(self) -> None:
        """No more records are handed out, ever; what waits is dropped and stays open in the ledger."""
        self.become(PartitionState.REVOKED)
        self.buffer.clear()

    # ---- inside

    def _handed_out(self, records: Records) -> Records:
        self.in_flight_count += len(records)
        self.failed_now.clear()
        if self._books.held or self._books.unwritten:  # what an earlier delivery has produced says no more
            firsts = self.buffer.first_offsets(records)
            each = self.buffer.spans(records) if self.buffer.holds_ranges else [(it, it + 1) for it in firsts]
            for first, end in each:
                self._books.unwritten.note_handed_out(first, end, self._books.held.drop(first))
        return records

    def _left(self, count: int) -> None:
        self.in_flight_count -= count
        self._books.is_paused = False
        if self.in_flight_count:
            return
        self.is_recalled = self._is_alone = False
        returned, self._returned = self._returned, []
        if not returned:
            self._books.plan.on_outcome(is_kept=self.buffer.holds_ranges and bool(self._books.unacked))
        elif self.state is not PartitionState.REVOKED:
            # They came back in several messages, in any order.
            self.buffer.put_back(sorted(returned, key=lambda records: records[0].offset), self._books.ledger)


def _units(buffer: Buffer, records: Records) -> list[Span]:
    """What each stands for, by itself."""
    ends = [record.offset + 1 for record in records]
    return list(zip(buffer.first_offsets(records), ends, strict=True))

"""The offsets of a partition in one assignment: its lanes report what becomes of them, commits read it."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import filterfalse, islice

from headrace.runtime.partitions.key import PartitionKey, PartitionLog
from headrace.runtime.partitions.offsets.awaiting_ack import AwaitingAck
from headrace.runtime.partitions.offsets.batch_plan import BatchPlan
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.failed_records import FailedRecord, FailedRecords
from headrace.runtime.partitions.offsets.interval_set import Span
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.partitions.offsets.pending_produces import PendingProduces
from headrace.runtime.wire.records import WireRecord

Nacked = dict[int, tuple[str, int]]
"""By first offset: why a record failed, and how many records of its call may be to blame."""


class PartitionOffsets(ABC):
    """The ledger of a partition, and all else that is known of its offsets: a Checkpoint is made of it.

    An AssignedPartition is one, with a lane and a flow limit. Lanes know it by this class only.
    """

    __slots__ = (
        "_last_settled",
        "ack_window_size",
        "acks_at_once",
        "awaiting_ack",
        "failed",
        "holds_ranges",
        "is_paused",
        "key",
        "ledger",
        "log",
        "nacked",
        "pending",
        "plan",
    )

    def __init__(
        self,
        key: PartitionKey,
        start: Checkpoint,
        log: PartitionLog,
        *,
        holds_ranges: bool = False,
        ack_window_size: int = 0,
    ) -> None:
        """Go on from `start`.

        `holds_ranges`: the partition is handled by ranges of offsets, not by records.
        """
        self.key = key
        self.log = log
        self.holds_ranges = holds_ranges
        self.ledger = Ledger(start.offset, start.acked)
        self.plan = BatchPlan(start.plan)
        self.failed = FailedRecords.from_attempts(start.attempts, are_ranges=holds_ranges)
        self.awaiting_ack = AwaitingAck()
        self.acks_at_once = False  # the records handled last were acked before their handler returned
        self.nacked: Nacked = {}  # records in flight that have failed, whatever their handler says now
        self.pending = PendingProduces()
        self.is_paused = False  # the record in flight takes so long that fetching more is of no use
        self.ack_window_size = ack_window_size
        # `ackWindowSize`: the offsets settled last stay uncommitted, so that a new owner repeats them.
        self._last_settled: deque[int] = deque(maxlen=ack_window_size)

    def __str__(self) -> str:
        return str(self.key)

    # ---- what an AssignedPartition adds

    @property
    @abstractmethod
    def to_hand_out(self) -> int:
        """How many of the records that wait may be handed out now, one by one."""

    @property
    @abstractmethod
    def left_in_flight(self) -> int:
        """How many records may be handed out by number alone, however many have overtaken others."""

    @abstractmethod
    def on_acked(self, first: int, end: int) -> None:
        """Settle `[first, end)` wherever its records are now. They are not delivered again."""

    # ---- for commits

    @property
    def checkpoint(self) -> Checkpoint:
        """The state that a commit may tell of now."""
        offset, acked = self.ledger.committable, self.ledger.settled_spans()
        if self._last_settled:
            offset, acked = _hold_back(sorted(self._last_settled), offset, acked)
        if self.pending:
            offset, acked = self.pending.hold_back(offset, acked)
        if acked and acked[0][0] == offset:  # settled ahead of the fetch: a commit may pass it at once
            offset = acked.pop(0)[1]
        return Checkpoint(offset, self.failed.attempts(offset), self.plan.planned, tuple(acked))

    # ---- for lanes, and for acks

    def settle(self, first: int, end: int) -> None:
        """Settle `[first, end)`: it succeeded, was acked, or was given up."""
        ledger = self.ledger
        if size := self.ack_window_size:
            # Offsets that were settled before don't move the window: only those that are open now do.
            newest_first = reversed(range(max(first, ledger.committable), end))
            newest = list(islice(filterfalse(ledger.is_settled, newest_first), size))
            self._last_settled.extend(reversed(newest))
        ledger.settle(first, end)
        if self.pending.rejected:
            self.pending.forget_rejected(first, end)

    def note_handled(self, firsts: Sequence[int], worker_index: int | None, ranges: Iterable[Span]) -> None:
        """Note records that went well at that worker, and wait for their acks.

        `ranges`: their spans, if the partition is handled by ranges.
        """
        self.acks_at_once = not any(self.ledger.open_spans(firsts[0], firsts[-1] + 1))
        if not self.acks_at_once:
            self.awaiting_ack.add(filter(self.ledger.is_open, firsts), worker_index)
        if self.holds_ranges:
            self.awaiting_ack.add_ends(ranges)
        if self.failed and self.holds_ranges:
            self.failed.forget(firsts)  # records, unlike ranges, may still be nacked
        elif self.failed:
            self.failed.note_handled(firsts)
        for first in self.pending.take_handled(firsts) if self.pending.rejected else ():
            self.on_acked(first, self.awaiting_ack.end_of(first))

    def note_failed(self, units: Sequence[Span], reason: str, among: int) -> list[int]:
        """Count a failure of records or ranges.

        Return the first offsets of those that are open: the others were acked, and don't count.
        """
        still_open = [unit for unit in units if self.ledger.is_open(unit[0])]
        for first, end in still_open:
            self.failed.note_failure(first, reason, among, end if self.holds_ranges else None)
        if still_open and not self.holds_ranges:  # a range comes again as it was
            self.plan.on_failed(still_open)
        return [first for first, _ in still_open]

    def note_suspected(self, units: Sequence[Span]) -> None:
        """Note that any of these records, or ranges, may be to blame for the end of its worker's process.

        After the first death in a planned batch nobody is suspected: the batch comes once more as it was.
        """
        if not self.plan.may_repeat_after_death():
            self.plan.drop_started()
            for first, end in units:
                self.failed.note_suspect(first, end if self.holds_ranges else None)

    def take_back(self, first: int, end: int, failures: int) -> None:
        """Open `[first, end)` again: whatever settled it, its handler or an ack, is void.

        `failures` of its deliveries had failed before. What else knows of it: docs/design/back-to-open.md.
        """
        self.ledger.reopen(first, end)
        if self._last_settled:
            # An offset may be settled a second time, and must not have two places in the window.
            kept = [offset for offset in self._last_settled if not first <= offset < end]
            self._last_settled = deque(kept, maxlen=self.ack_window_size)
        if failures:
            self.failed[first] = FailedRecord(failures)

    def refuse(self, record: WireRecord, reason: str) -> None:
        """Have a record that was fetched not delivered."""
        self.plan.drop_at(record.offset)
        if self.ledger.is_open(record.offset):  # otherwise it is settled already
            self.failed.refuse(record.offset, reason)


def _hold_back(last: Sequence[int], committable: int, acked: Sequence[Span]) -> tuple[int, list[Span]]:
    """Return the offset and the acked spans that a commit may say without the offsets `last`, ascending."""
    held = deque(last)
    offset = min(committable, held[0])
    spans = []
    for first, end in ((offset, committable), *acked):
        at = first
        while held and held[0] < end:
            spans.append((at, held[0]))
            at = held.popleft() + 1
        spans.append((at, end))
    return offset, [(first, end) for first, end in spans if first < end]

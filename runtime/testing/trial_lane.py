"""A lane of records that are all there from the beginning: what a trial has in place of a partition."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Lane, next_lane_id
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.wire.produce import Message
from headrace.runtime.wire.records import Headers, WireRecord


@dataclass(slots=True, eq=False)
class TrialRecord:
    """A WireRecord, and what has become of it so far. `first` is the first offset of a range."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int = -1
    timestamp_type: int | None = None
    attempt: int = 1
    first: int | None = None
    result: Any = None
    failure: str | None = None
    produced: list[Message] = field(default_factory=list)

    @property
    def span(self) -> tuple[int, int]:
        """Offsets `[first, end)` that it stands for."""
        return self.offset if self.first is None else self.first, self.offset + 1


class TrialLane(Lane):
    """A lane over a ledger, whose records come again at once where they were given back or have failed.

    A record that has failed stays open in the ledger, and comes again until its attempts are spent.
    """

    def __init__(self, key: PartitionKey, records: Sequence[TrialRecord], max_attempts: int = 1) -> None:
        """`records` has at least one, in order of offset."""
        self.id = next_lane_id()
        self.key = key
        self.epoch = 0
        self.worker_index: int | None = None
        self.in_flight_count = 0
        self.is_recalled = False
        self.ledger = Ledger(records[0].span[0])
        for record in records:
            self.ledger.add(*record.span)
        self.again_count = 0
        """Number of waiting records that have failed, and that nobody has been told of."""
        self._max_attempts = max_attempts
        self._waiting: list[WireRecord] = list(records)
        self.by_offset = {record.offset: record for record in records}

    @property
    def is_deliverable(self) -> bool:
        """Whether records can be handed out now."""
        # Between a recall and the last record that comes back nothing is handed out: it would overtake those.
        return bool(self._waiting) and not (self.is_recalled and self.in_flight_count)

    @property
    def is_head_refused(self) -> bool:
        """Whether the first record may not be handed out: never."""
        return False

    def attempt(self, record: WireRecord) -> int:
        """Number of the record's next delivery: as its test says, and one more for each failure."""
        return cast("TrialRecord", record).attempt

    def take(self, limit: int, byte_limit: int = 1 << 60) -> Sequence[WireRecord]:
        """Hand out up to `limit` records, of any size."""
        taken, self._waiting = self._waiting[:limit], self._waiting[limit:]
        for record in taken:
            # A new delivery, which may succeed.
            cast("TrialRecord", record).failure = None
        self.in_flight_count += len(taken)
        return taken

    def first_offsets(self, records: Sequence[WireRecord]) -> Sequence[int]:
        """First offset of each record."""
        return [first for first, _ in self.spans(records)]

    def spans(self, records: Sequence[WireRecord]) -> Sequence[tuple[int, int]]:
        """Offsets `[first, end)` of each record."""
        return [cast("TrialRecord", record).span for record in records]

    def on_sent(self, worker_index: int) -> None:
        """Note which worker has the records."""
        self.worker_index = worker_index

    def on_recalled(self) -> None:
        """Note that records are being given back: none is handed out before all have come back."""
        self.is_recalled = True

    def on_settled(self, records: Sequence[WireRecord]) -> None:
        """Settle records that the handler is done with."""
        for first, end in self.spans(records):
            self.ledger.settle(first, end)
        self._on_left(len(records))

    def on_unacked(self, records: Sequence[WireRecord]) -> None:
        """Leave records open that the handler is done with, and that wait for an ack."""
        self._on_left(len(records))

    def on_failed(self, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """Note that records have failed. They don't go on to `on_returned`."""
        # The worker gives back what it has of this epoch behind the failure; what is handed out next is of
        # another.
        self.epoch += 1
        for record in records:
            self._fail(cast("TrialRecord", record), reason)
        self._on_left(len(records))

    def fail(self, offset: int, reason: str) -> None:
        """Fail a record that was nacked, or whose message was refused: of no effect where it is acked."""
        if self.ledger.is_open(offset):
            self._fail(self.by_offset[offset], reason)

    def _fail(self, record: TrialRecord, reason: str) -> None:
        if record.failure is not None:  # said already, of this delivery
            return
        record.failure = reason
        if record.attempt < self._max_attempts:
            record.attempt += 1
            self.again_count += 1
            self._wait([record])

    def settle(self, first: int, offset: int) -> None:
        """Ack all from `first` to `offset`, which may name a range by its last offset."""
        named = self.by_offset.get(offset)
        self.ledger.settle(min(first, named.span[0]) if named else first, offset + 1)

    def on_suspected(self, records: Sequence[WireRecord]) -> None:
        """Note that a worker died in records. They don't go on to `on_returned`."""
        self._on_left(len(records))

    def on_returned(self, records: Sequence[WireRecord]) -> None:
        """Take back records that weren't handled."""
        self._wait(records)
        self._on_left(len(records))

    def _wait(self, records: Sequence[WireRecord]) -> None:
        # Records come back in any order, and go out again in the order of their offsets, as from a partition.
        self._waiting = sorted([*records, *self._waiting], key=lambda record: record.offset)

    def _on_left(self, count: int) -> None:
        self.in_flight_count -= count
        if not self.in_flight_count:
            self.is_recalled = False

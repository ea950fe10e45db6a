"""A lane of records that are all there from the beginning: what a trial has in place of a partition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from headrace.runtime.partitions.books.ledger import Ledger
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Plain, next_lane_id
from headrace.runtime.wire.frames import Headers, WireRecord


@dataclass(slots=True, eq=False)
class TrialRecord:
    """A WireRecord, and what is known of it so far."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int = -1
    timestamp_type: int | None = None
    attempt: int = 1
    result: Any = None
    failure: str | None = None


class TrialLane(Plain):
    """A Lane over a ledger. What comes back is handed out again; what has failed stays open, and isn't."""

    def __init__(self, key: PartitionKey, records: Sequence[TrialRecord]) -> None:
        """At least one record, in order of offset."""
        self.id = next_lane_id()
        self.key = key
        self.epoch = 0
        self.worker_index: int | None = None
        self.in_flight_count = 0
        self.is_recalled = False
        self.next_chunk = None
        self.ledger = Ledger(records[0].offset)
        for record in records:
            self.ledger.add(record.offset, record.offset + 1)
        self._waiting: list[WireRecord] = list(records)
        self._by_offset = {record.offset: record for record in records}

    @property
    def is_deliverable(self) -> bool:
        """As Lane says."""
        return bool(self._waiting) and not (self.is_recalled and self.in_flight_count)

    @property
    def is_head_refused(self) -> bool:
        """Nothing is."""
        return False

    def attempt(self, record: WireRecord) -> int:
        """What its test says that it is."""
        return cast("TrialRecord", record).attempt

    def take(self, limit: int, byte_limit: int = 1 << 60) -> Sequence[WireRecord]:
        """As Lane says; they are of any size."""
        taken, self._waiting = self._waiting[:limit], self._waiting[limit:]
        self.in_flight_count += len(taken)
        return taken

    def first_offsets(self, records: Sequence[WireRecord]) -> Sequence[int]:
        """As Lane says."""
        return [record.offset for record in records]

    def spans(self, records: Sequence[WireRecord]) -> Sequence[tuple[int, int]]:
        """As Lane says."""
        return [(record.offset, record.offset + 1) for record in records]

    def on_sent(self, worker_index: int) -> None:
        """As Lane says."""
        self.worker_index = worker_index

    def on_recalled(self) -> None:
        """As Lane says."""
        self.is_recalled = True

    def on_settled(self, records: Sequence[WireRecord]) -> None:
        """As Lane says."""
        for first, end in self.spans(records):
            self.ledger.settle(first, end)
        self._on_left(len(records))

    def on_unacked(self, records: Sequence[WireRecord]) -> None:
        """As Lane says."""
        self._on_left(len(records))

    def on_failed(self, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """They don't go on to `on_returned`."""
        self.epoch += 1
        for record in records:
            cast("TrialRecord", record).failure = reason
        self._on_left(len(records))

    def fail(self, offset: int, reason: str) -> None:
        """It was nacked: of no effect where it is acked."""
        if self.ledger.is_open(offset):
            self._by_offset[offset].failure = reason

    def on_suspected(self, records: Sequence[WireRecord]) -> None:
        """They don't go on to `on_returned`."""
        self._on_left(len(records))

    def on_returned(self, records: Sequence[WireRecord]) -> None:
        """As Lane says."""
        self._waiting = sorted([*records, *self._waiting], key=lambda record: record.offset)
        self._on_left(len(records))

    def _on_left(self, count: int) -> None:
        self.in_flight_count -= count
        if not self.in_flight_count:
            self.is_recalled = False

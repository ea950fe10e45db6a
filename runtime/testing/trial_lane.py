"""A lane of records that are all there from the beginning: what a trial has in place of a partition."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Plain, next_lane_id
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.wire.produce import Message
from headrace.runtime.wire.records import Headers, WireRecord


@dataclass(slots=True, eq=False)
class TrialRecord:
    """A WireRecord, and what is known of it so far. `first` is the first offset of a range."""

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
        """The offsets `[first, end)` that it stands for."""
        return self.offset if self.first is None else self.first, self.offset + 1


class TrialLane(Plain):
    """A Lane over a ledger. What comes back is handed out again; what has failed stays open.

    That is handed out again too, at once, until its attempts are spent.
    """

    def __init__(self, key: PartitionKey, records: Sequence[TrialRecord], max_attempts: int = 1) -> None:
        """At least one record, in order of offset."""
        self.id = next_lane_id()
        self.key = key
        self.epoch = 0
        self.worker_index: int | None = None
        self.in_flight_count = 0
        self.is_recalled = False
        self.next_chunk = None
        self.ledger = Ledger(records[0].span[0])
        for record in records:
            self.ledger.add(*record.span)
        self.again_count = 0
        """How many of those that wait have failed, and nobody has been told."""
        self._max_attempts = max_attempts
        self._waiting: list[WireRecord] = list(records)
        self.by_offset = {record.offset: record for record in records}

    @property
    def is_deliverable(self) -> bool:
        """As Lane says."""
        return bool(self._waiting) and not (self.is_recalled and self.in_flight_count)

    @property
    def is_head_refused(self) -> bool:
        """Nothing is."""
        return False

    def attempt(self, record: WireRecord) -> int:
        """What its test says that it is, or one more for each time that it has failed."""
        return cast("TrialRecord", record).attempt

    def take(self, limit: int, byte_limit: int = 1 << 60) -> Sequence[WireRecord]:
        """As Lane says; they are of any size."""
        taken, self._waiting = self._waiting[:limit], self._waiting[limit:]
        for record in taken:
            cast("TrialRecord", record).failure = None
        self.in_flight_count += len(taken)
        return taken

    def first_offsets(self, records: Sequence[WireRecord]) -> Sequence[int]:
        """As Lane says."""
        return [first for first, _ in self.spans(records)]

    def spans(self, records: Sequence[WireRecord]) -> Sequence[tuple[int, int]]:
        """As Lane says."""
        return [cast("TrialRecord", record).span for record in records]

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
            self._fail(cast("TrialRecord", record), reason)
        self._on_left(len(records))

    def fail(self, offset: int, reason: str) -> None:
        """It was nacked, or couldn't be answered for: of no effect where it is acked."""
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
        """Acked: all from `first` to `offset`, which may name a range by its last."""
        named = self.by_offset.get(offset)
        self.ledger.settle(min(first, named.span[0]) if named else first, offset + 1)

    def on_suspected(self, records: Sequence[WireRecord]) -> None:
        """They don't go on to `on_returned`."""
        self._on_left(len(records))

    def on_returned(self, records: Sequence[WireRecord]) -> None:
        """As Lane says."""
        self._wait(records)
        self._on_left(len(records))

    def _wait(self, records: Sequence[WireRecord]) -> None:
        self._waiting = sorted([*records, *self._waiting], key=lambda record: record.offset)

    def _on_left(self, count: int) -> None:
        self.in_flight_count -= count
        if not self.in_flight_count:
            self.is_recalled = False

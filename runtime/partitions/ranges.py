"""`delivery: ranges`: a partition whose records are never fetched. Ranges of its offsets are handed out."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, ClassVar

from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.partitions.checkpoint import Checkpoint, Plan
from headrace.runtime.wire.frames import Headers, encode_range

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets `[first, end)` in the shape of one record, so that they travel as one.

    Its offset is the last one, which an ack of the range names; its value says where it begins.
    """

    first: int
    end: int
    timestamp: ClassVar[int] = -1
    timestamp_type: ClassVar[int | None] = None
    key: ClassVar[bytes | None] = None
    headers: ClassVar[Headers] = ()

    @property
    def offset(self) -> int:
        """The last one."""
        return self.end - 1

    @property
    def value(self) -> bytes:
        """Says where it begins."""
        return encode_range(self.first)


class RangePartition(AssignedPartition):
    """`_buffer` holds open spans `(first, end)` of offsets, ascending, none touching the next.

    A range stays one: it fails as one, comes again as one until its attempts are spent, then by halves. In
    explicit modes no other one is handed out before it is acked, so that a new owner could still repeat it.
    """

    __slots__ = ("_given",)

    def __init__(self, topic: str, partition: int, start: Checkpoint) -> None:
        super().__init__(topic, partition, start, 0)
        self._buffer: deque[Any] = deque()
        self._given: Sequence[OffsetRange] = ()  # what was handed out last
        bounds = [offset for offset, _ in start.attempts]
        for first, end in pairwise(bounds):
            self.failed_records[first].end = end
        self.failed_records.forget([offset for offset, failures in start.attempts if not failures])

    # ---- what is so

    @property
    def waiting(self) -> int:
        """Offsets that can be handed out."""
        return sum(end - first for first, end in self._buffer)

    @property
    def room(self) -> int:
        """Nothing is fetched."""
        return 0

    @property
    def has_room(self) -> bool:
        """Offsets take none."""
        return True

    @property
    def waits_for_acks(self) -> bool:
        """Of what was handed out last."""
        return bool(self.unacked) and not self.in_flight_count and bool(self._buffer)

    @property
    def is_deliverable(self) -> bool:
        """Whether the next range may be handed out now. One that failed need not wait for acks of others."""
        is_held_up = bool(self.unacked) and self.next_offset not in self.failed_records
        return super().is_deliverable and not self.in_flight_count and not is_held_up

    @property
    def checkpoint(self) -> Checkpoint:
        """Of ranges in trouble it says the ends too: as offsets with no failures."""
        said = super().checkpoint
        ends = {trouble.end for trouble in self.failed_records.values() if trouble.end is not None}
        failures = dict.fromkeys(ends, 0) | dict(said.attempts)
        return replace(said, attempts=tuple(sorted(failures.items())))

    @property
    def head(self) -> OffsetRange | None:
        """The next offset to hand out."""
        offset = self.next_offset
        return None if offset is None else OffsetRange(offset, offset + 1)

    @property
    def next_offset(self) -> int | None:
        """The lowest one to hand out."""
        first: int | None = self._buffer[0][0] if self._buffer else None
        return first

    def waiting_below(self, offset: int) -> int:
        """How many of those to hand out lie before `offset`."""
        return sum(min(end, offset) - first for first, end in self._buffer if first < offset)

    def span_of_first(self, count: int) -> Plan:
        """From the first one to hand out to the end of the `count`th."""
        (begin, _), *_ = self._buffer
        for first, end in self._buffer:
            if count <= end - first:
                return Plan(begin, first + count)
            count -= end - first
        raise IndexError(f"{count} offsets more than wait")

    def count_together(self, size: int) -> tuple[int, bool]:
        """A range that failed goes as it was, or as much of it as may; a fresh one ends before the next."""
        first = self.next_offset
        assert first is not None, "something waits"
        if (trouble := self.failed_records.get(first)) is not None:
            whole = self.waiting_below(first + trouble.span_from(first))
            return min(whole, trouble.batch_limit or whole), True
        nearest = min(filter(first.__lt__, self.failed_records), default=None)
        return min(size, self.waiting if nearest is None else self.waiting_below(nearest)), False

    def acked_by(self, offset: int) -> int | None:
        """The first offset of the range that ends with `offset`; None inside a range, where no ack may be."""
        if self.ledger.is_settled(offset):
            return offset
        for first, end in self._ranges():
            if first <= offset < end:
                return first if offset == end - 1 else None
        return offset

    def _ranges(self) -> Iterator[Span]:
        """All that somebody may hold an event of."""
        yield from self.spans_of(self._given)
        if self.plan is not None:
            yield from self.ledger.unsettled_spans(self.plan.first, self.plan.end)
        for first, trouble in self.failed_records.items():
            yield first, first + trouble.span_from(first)

    # ---- what happens to it

    def extend(self, end: int) -> None:
        """Its log ends at `end` now."""
        first = self.ledger.position
        if end > first:
            self.ledger.add(first, end)
            self._wait(self.ledger.open_spans(first, end))

    def on_acked(self, first: int, end: int) -> None:
        """What nobody has to repeat needs no plan."""
        super().on_acked(first, end)
        if self.plan is not None and self.ledger.committable >= self.plan.end:
            self.plan = None

    def on_failed(self, records: Sequence[Any], reason: str, among: int) -> None:
        """It comes again as it was."""
        plan = self.plan
        super().on_failed(records, reason, among)
        self.plan = plan
        for first, end in self.spans_of(records):
            if (trouble := self.failed_records.get(first)) is not None:
                trouble.end, trouble.among = end, max(among, end - first)

    def on_suspected(self, records: Sequence[Any]) -> None:
        """The second time, each range goes alone."""
        super().on_suspected(records)
        for first, end in self.spans_of(records):
            if (trouble := self.failed_records.get(first)) is not None:
                trouble.end, trouble.batch_limit = end, end - first

    # ---- as its base asks

    @staticmethod
    def firsts_of(records: Sequence[Any]) -> Sequence[int]:
        """The first offset of each range."""
        return [record.first for record in records]

    def spans_of(self, records: Sequence[Any]) -> Sequence[Span]:
        """Each range's own."""
        return [(record.first, record.end) for record in records]

    def _end_plan(self) -> None:
        """It stays until the ack. The worker's session is not in it: nothing of the plan runs there now."""
        plan = self.plan
        self.plan = replace(plan, session="") if plan is not None and self.unacked else None

    def _pop_below(self, end: int) -> list[Any]:
        taken = []
        while self._buffer and self._buffer[0][0] < end:
            first, last = self._buffer.popleft()
            if last > end:
                self._buffer.appendleft((end, last))
            taken.append(OffsetRange(first, min(last, end)))
        self._given = taken
        if taken and (trouble := self.failed_records.get(taken[0].first)) is not None:
            self._split(trouble, end)
        return taken

    def _split(self, trouble: Any, at: int) -> None:
        """Of a range in trouble only a part is handed out: the rest stays in the same trouble."""
        if trouble.end is not None and at < trouble.end:
            self.failed_records[at] = replace(trouble)
            trouble.end = at

    def _keep_open(self) -> None:
        self._buffer = deque(
            span for first, end in self._buffer for span in self.ledger.open_spans(first, end)
        )

    def _put_back(self, returned: Sequence[Sequence[Any]]) -> None:
        waited, self._buffer = self._buffer, deque()
        ranges = chain.from_iterable(returned)
        self._wait(span for r in ranges for span in self.ledger.open_spans(r.first, r.end))
        self._wait(waited)

    def _wait(self, spans: Iterable[Span]) -> None:
        for first, end in spans:
            touches = bool(self._buffer) and self._buffer[-1][1] == first
            self._buffer.append((self._buffer.pop()[0] if touches else first, end))

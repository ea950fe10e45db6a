"""The buffer of a partition with `delivery: ranges`: offsets of records that nobody has fetched."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import ClassVar

from headrace.runtime.partitions.chunk import Records
from headrace.runtime.partitions.offsets.failed_records import FailedRecords
from headrace.runtime.partitions.offsets.interval_set import Span
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.wire.records import Headers, WireRecord, decode_range, encode_range


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
        """The last offset."""
        return self.end - 1

    @property
    def value(self) -> bytes:
        """The first offset, encoded."""
        return encode_range(self.first)


class RangeBuffer:
    """Open spans of offsets, none touching the next, cut into ranges when they are taken.

    A range stays one: it comes again as it was until its attempts are spent, then by halves.
    """

    __slots__ = ("_waiting", "last_taken")
    holds_ranges: ClassVar[bool] = True

    def __init__(self) -> None:
        self._waiting: deque[Span] = deque()
        self.last_taken: list[OffsetRange] = []
        """The ranges that were taken last: handlers may have events of them."""

    @property
    def count(self) -> int:
        """How many offsets wait."""
        return sum(end - first for first, end in self._waiting)

    @property
    def decoded_count(self) -> int:
        """0: no record is fetched."""
        return 0

    @property
    def decoded_bytes(self) -> int:
        """0: no record is fetched."""
        return 0

    @property
    def size_bytes(self) -> int:
        """0: no record is fetched."""
        return 0

    @property
    def head(self) -> OffsetRange | None:
        """The next offset, as a range of its own."""
        first = self.next_offset
        return None if first is None else OffsetRange(first, first + 1)

    @property
    def next_offset(self) -> int | None:
        """The lowest offset that waits."""
        return self._waiting[0][0] if self._waiting else None

    def offsets(self, limit: int) -> list[int]:
        """Return the first offsets, `limit` at most."""
        return list(islice(chain.from_iterable(range(*span) for span in self._waiting), limit))

    def count_below(self, offset: int) -> int:
        """Return how many offsets lie before `offset`."""
        return sum(min(end, offset) - first for first, end in self._waiting if first < offset)

    def span_of_first(self, count: int) -> Span:
        """Return the span from the first offset to behind the `count`th. IndexError if fewer wait."""
        left = count
        for first, end in self._waiting:
            if left <= end - first:
                return self._waiting[0][0], first + left
            left -= end - first
        raise IndexError(f"{count} of {self.count}")

    def count_together(self, size: int, failed: FailedRecords) -> tuple[int, bool]:
        """Return how many of the first `size` offsets may go in one batch, and whether no others may as well.

        A range that failed goes as it was, or as much of it as its `batch_limit` allows; a fresh one ends
        before the next one that failed.
        """
        first = self._waiting[0][0]
        if (failed_range := failed.of(first)) is not None:
            whole = self.count_below(first + failed_range.span_from(first))
            return min(whole, failed_range.batch_limit or whole), True
        nearest = failed.nearest_above(first)
        return min(size, self.count if nearest is None else self.count_below(nearest)), False

    def full_batches(self, size: int, above: int) -> list[Span]:
        """Return none: a range is planned by itself, when it is cut."""
        return []

    def append(self, units: Records) -> None:
        """Add ranges after all others."""
        self._wait(self.spans(units))

    def append_open(self, units: Records, ledger: Ledger) -> None:
        """Add the open offsets of these ranges, after all others."""
        for first, end in self.spans(units):
            self._wait(ledger.open_spans(first, end))

    def put_back(self, returned: Sequence[Records], ledger: Ledger) -> None:
        """Add the open offsets of returned ranges, before all others."""
        waited, self._waiting = self._waiting, deque()
        for units in returned:
            self.append_open(units, ledger)
        self._wait(waited)

    def keep_open(self, ledger: Ledger) -> None:
        """Drop offsets that aren't open any more."""
        self._waiting = deque(chain.from_iterable(ledger.open_spans(*span) for span in self._waiting))

    def take(self, limit: int, byte_limit: int) -> Records:
        """Remove and return the first range, `limit` offsets at most."""
        first, end = self._waiting[0]
        return self._cut(min(end, first + limit))

    def take_below(self, end: int) -> list[Records]:
        """Remove and return all offsets before `end`: a range for each span."""
        ranges = self._cut(end)
        return [ranges] if ranges else []

    def _cut(self, end: int) -> list[OffsetRange]:
        taken = []
        while self._waiting and self._waiting[0][0] < end:
            first, last = self._waiting.popleft()
            if last > end:  # the rest stays in front: it goes next
                self._waiting.appendleft((end, last))
            taken.append(OffsetRange(first, min(last, end)))
        self.last_taken = taken
        return taken

    def clear(self) -> None:
        """Remove all offsets."""
        self._waiting.clear()

    @staticmethod
    def first_offsets(units: Records) -> Sequence[int]:
        """Return the first offset of each range."""
        return [_first(unit) for unit in units]

    @staticmethod
    def spans(units: Records) -> Sequence[Span]:
        """Return the span of each range."""
        return [(_first(unit), unit.offset + 1) for unit in units]

    def _wait(self, spans: Iterable[Span]) -> None:
        for first, end in spans:
            # Spans that touch are one, however they came here: they are cut when they are taken.
            touches = bool(self._waiting) and self._waiting[-1][1] == first
            self._waiting.append((self._waiting.pop()[0] if touches else first, end))


def _first(unit: WireRecord) -> int:
    return decode_range(unit.value or b"")

"""The buffer of a partition that is fetched: sequences of records, decoded or not, to be handed out."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, groupby, islice, pairwise
from operator import attrgetter
from typing import ClassVar

from headrace.runtime.partitions.chunk import Chunk, ChunkRecord, ChunkSlice, Records, offsets_of
from headrace.runtime.partitions.offsets.failed_records import FailedRecords
from headrace.runtime.partitions.offsets.interval_set import Span
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.undecoded import UndecodableError, UndecodableRecord

DECODED_BYTES = 600
"""About how many bytes a decoded record takes beside its key and value."""


class RecordBuffer:
    """Records in order of offset. Those taken together are part of one sequence, so chunks stay whole.

    Decoded records that follow each other join; a chunk's slices stay apart.
    """

    __slots__ = ("_chunk_bytes", "_largest_bytes", "_parts", "count", "decoded_bytes", "decoded_count")
    holds_ranges: ClassVar[bool] = False

    def __init__(self) -> None:
        self._parts: deque[Records] = deque()
        self.count = self.decoded_count = 0
        self._chunk_bytes = self.decoded_bytes = 0
        # The largest decoded record since none was here. If a run has room for as many of that size, their
        # sizes needn't be added up.
        self._largest_bytes = 0

    def __iter__(self) -> Iterator[WireRecord]:
        return chain.from_iterable(self._parts)

    @property
    def size_bytes(self) -> int:
        """How many bytes chunks have, as they are kept, and decoded records take, about."""
        return self._chunk_bytes + self.decoded_bytes

    @property
    def head(self) -> WireRecord | None:
        """The first record."""
        return self._parts[0][0] if self._parts else None

    @property
    def next_offset(self) -> int | None:
        """The offset of the first record."""
        return self._parts[0][0].offset if self._parts else None

    def offsets(self, limit: int) -> list[int]:
        """Return the offsets of the first records, `limit` at most."""
        return [record.offset for record in islice(self, limit)]

    def span_of_first(self, count: int) -> Span:
        """Return the span from the first record to behind the `count`th. IndexError if fewer wait."""
        if not 0 < count <= self.count:
            raise IndexError(f"{count} of {self.count}")
        left = count
        for part in self._parts:
            if left <= len(part):
                return self._parts[0][0].offset, part[left - 1].offset + 1
            left -= len(part)
        raise AssertionError("as many wait as are counted")

    def count_together(self, size: int, failed: FailedRecords) -> tuple[int, bool]:
        """Return how many of the first `size` may go in one batch, and whether no others may as well.

        Records that failed go apart from the others, and no more of them together than each allows.
        """
        if not failed:
            return min(size, self.count), False
        limits = [failed.batch_limit(offset) for offset in self.offsets(size)]
        is_limited = limits[0] is not None
        count, most = 0, size
        for limit in limits:
            most = min(most, size if limit is None else limit)
            if (limit is not None) != is_limited or count >= most:
                break
            count += 1
        return count, is_limited

    def full_batches(self, size: int, above: int) -> list[Span]:
        """Return the spans of all full batches of just `size` records, at or above offset `above`.

        Each begins at the end of the one before it; the first one at a record.
        """
        batches: list[Span] = []
        first, missing = -1, size
        for part in self._parts:
            at = _index(part, above) if part[0].offset < above else 0
            if first < 0 and at < len(part):
                first = part[at].offset
            while missing <= len(part) - at:
                at, missing = at + missing, size
                end = part[at - 1].offset + 1
                batches.append((first, end))
                first = end
            missing -= len(part) - at
        return batches

    def count_below(self, offset: int) -> int:
        """Return how many records lie before `offset`."""
        below = 0
        for part in self._parts:
            at = _index(part, offset)
            below += at
            if at < len(part):
                break
        return below

    def append(self, records: Records) -> None:
        """Add records after all others."""
        self.count += len(records)
        last = self._parts[-1] if self._parts else None
        # A chunk stays as it came: its worker gets the bytes, and decodes them.
        if isinstance(records, ChunkSlice):
            self._chunk_bytes += len(records) * records.chunk.record_bytes
            self._parts.append(records)
            return
        sizes = sizes_of(records)
        self.decoded_count += len(records)
        self.decoded_bytes += sum(sizes) + len(records) * DECODED_BYTES
        self._largest_bytes = max(self._largest_bytes, *sizes)
        if isinstance(last, list):
            last.extend(records)
        else:
            self._parts.append(list(records))

    def append_open(self, records: Records, ledger: Ledger) -> None:
        """Add those of the records that are open, after all others."""
        for part in _open_parts(records, ledger):
            self.append(part)

    def put_back(self, returned: Sequence[Records], ledger: Ledger) -> None:
        """Add returned records that are open, before all others.

        Decoded ones go by offset: they may come back late.
        """
        parts = [*chain.from_iterable(map(_sequences, returned)), *self._parts]
        # A record that was handled may come back behind higher ones: its message was refused only later.
        if any(one[-1].offset > other[0].offset for one, other in pairwise(parts)):
            parts = [sorted(chain.from_iterable(parts), key=attrgetter("offset"))]
        self._rebuild(parts, ledger)

    def keep_open(self, ledger: Ledger) -> None:
        """Drop records that are not open any more."""
        self._rebuild(self._parts, ledger)

    def take(self, limit: int, byte_limit: int) -> Records:
        """Remove and return the first records: at least one, and no more than one sequence has."""
        part = self._parts[0]
        limit = min(limit, len(part))
        if isinstance(part, ChunkSlice):
            return self._take(max(1, min(limit, byte_limit // part.chunk.record_bytes)))
        # Nearly always the largest one says that all fit: adding up sizes would be a pass over them.
        fits = limit * self._largest_bytes <= byte_limit
        return self._take(limit if fits else _fitting(part, limit, byte_limit))

    def take_below(self, end: int) -> list[Records]:
        """Remove and return the records before offset `end`, sequence by sequence."""
        taken: list[Records] = []
        while self._parts and (count := _index(self._parts[0], end)):
            taken.append(self._take(count))
        return taken

    def clear(self) -> None:
        """Remove all records."""
        self._parts.clear()
        self.count = self.decoded_count = 0
        self._chunk_bytes = self.decoded_bytes = self._largest_bytes = 0

    @staticmethod
    def first_offsets(units: Records) -> Sequence[int]:
        """Return the offset of each record."""
        return offsets_of(units)

    @staticmethod
    def spans(units: Records) -> Sequence[Span]:
        """Return one span; or one for each record, if offsets are missing: those between may be open."""
        first, last = units[0].offset, units[-1].offset
        if last - first + 1 == len(units):
            return [(first, last + 1)]
        return [(record.offset, record.offset + 1) for record in units]

    def _take(self, count: int) -> Records:
        part = self._parts[0]
        if count == len(part):
            taken = self._parts.popleft()
        else:
            taken, self._parts[0] = part[:count], part[count:]
        self.count -= count
        if isinstance(part, ChunkSlice):
            self._chunk_bytes -= count * part.chunk.record_bytes
        else:
            self.decoded_bytes -= sum(sizes_of(taken)) + count * DECODED_BYTES
            self.decoded_count -= count
            if not self.decoded_count:
                self._largest_bytes = 0
        return taken

    def _rebuild(self, parts: Sequence[Records], ledger: Ledger) -> None:
        parts = tuple(parts)
        self.clear()
        for part in parts:
            self.append_open(part, ledger)


def record_bytes(record: WireRecord) -> int:
    """Return the bytes by which a record counts against a limit: those of key and value."""
    if isinstance(record, UndecodableRecord):
        return 0
    return len(record.value or b"") + len(record.key or b"")


def sizes_of(records: Sequence[WireRecord]) -> list[int]:
    """Return the bytes by which each record counts against a limit."""
    # A list, not a call each: this is done for every decoded record.
    try:
        return [len(record.value or b"") + len(record.key or b"") for record in records]
    except UndecodableError:
        return [record_bytes(record) for record in records]


def _fitting(part: Records, limit: int, byte_limit: int) -> int:
    """Return how many of the first `limit` records fit into so many bytes; one at least."""
    sizes = sizes_of(part[:limit])
    return max(1, bisect_right(list(accumulate(sizes)), byte_limit))


def _index(part: Records, offset: int) -> int:
    """Return the index of the first record at or above `offset`."""
    if isinstance(part, ChunkSlice):
        return min(max(offset - part.offsets.start, 0), len(part))
    return bisect_left(part, offset, key=lambda record: record.offset)


def _sequences(records: Records) -> Iterator[Records]:
    """Yield records of chunks that came back one by one as slices again: single ones had to be decoded."""
    if isinstance(records, ChunkSlice):
        yield records
        return
    for (chunk, _), numbered in groupby(enumerate(records), _sequence_of):
        alike = [record for _, record in numbered]
        offsets = range(alike[0].offset, alike[-1].offset + 1)
        yield alike if chunk is None else ChunkSlice(chunk, offsets)


def _sequence_of(numbered: tuple[int, WireRecord]) -> tuple[Chunk | None, int]:
    """Return a key that records of one chunk share if they follow each other, and all decoded ones share."""
    number, record = numbered
    return (record.chunk, record.offset - number) if isinstance(record, ChunkRecord) else (None, 0)


def _open_parts(records: Records, ledger: Ledger) -> Iterator[Records]:
    for first, end in ledger.open_spans(records[0].offset, records[-1].offset + 1):
        if part := records[_index(records, first) : _index(records, end)]:
            yield part

"""Chunks of records that a processor has and doesn't decode: bytes of which only offsets are known."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, overload

from headrace.runtime.wire.framing import Buffer
from headrace.runtime.wire.records import Headers, WireRecord
from headrace.runtime.wire.undecoded import Decode

Records = Sequence[WireRecord]
"""Records of one partition in order of offset: a list of decoded ones, or a ChunkSlice."""

_ids = count()


def _next_id() -> int:
    return next(_ids) % 2**32


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Records `[first, first + count)`, without a hole, as their source keeps them."""

    first: int
    count: int
    data: Buffer
    decode: Decode
    timestamp: int | None = None
    """The time of its first record, ms since the epoch, if its source tells that undecoded."""
    held: object = None
    """An object that lives as long as the chunk: by it, whoever counts the bytes that `data` is a part of
    knows that some of them are still needed."""
    id: int = field(default_factory=_next_id)  # on the wire

    @property
    def record_bytes(self) -> int:
        """How many bytes one record has, on average, as they are kept; 1 at least."""
        return len(self.data) // self.count + 1


class ChunkRecord(NamedTuple):
    """A record of a chunk, decoded when somebody asks for more than its offset."""

    chunk: Chunk
    offset: int

    def _decoded(self) -> WireRecord:
        chunk = self.chunk
        # Not kept: a chunk has records by the thousand, and few are ever looked at in this process.
        (record,) = chunk.decode(chunk.data, self.offset - chunk.first, must_live=True).read(1)
        return record

    @property
    def timestamp(self) -> int:
        """The time of the record, ms since the epoch."""
        return self._decoded().timestamp

    @property
    def timestamp_type(self) -> int | None:
        """The giver of the timestamp: 0 the producer, 1 the broker; None if the source doesn't say."""
        return self._decoded().timestamp_type

    @property
    def key(self) -> bytes | None:
        """The key of the record."""
        return self._decoded().key

    @property
    def value(self) -> bytes | None:
        """The value of the record."""
        return self._decoded().value

    @property
    def headers(self) -> Headers:
        """The headers of the record."""
        return self._decoded().headers


class ChunkSlice(Sequence[WireRecord]):
    """Consecutive records of one chunk; its slices are views of the same bytes."""

    __slots__ = ("chunk", "offsets")

    def __init__(self, chunk: Chunk, offsets: range | None = None) -> None:
        """Take the records at `offsets`, which lie in the chunk; None: all of them."""
        self.chunk = chunk
        self.offsets = range(chunk.first, chunk.first + chunk.count) if offsets is None else offsets

    def __len__(self) -> int:
        return len(self.offsets)

    @overload
    def __getitem__(self, index: int) -> ChunkRecord: ...
    @overload
    def __getitem__(self, index: slice) -> "ChunkSlice": ...
    def __getitem__(self, index: int | slice) -> "ChunkRecord | ChunkSlice":
        if isinstance(index, slice):
            return ChunkSlice(self.chunk, self.offsets[index])
        return ChunkRecord(self.chunk, self.offsets[index])


def first_timestamp(records: Records) -> int | None:
    """Return the time of the first record, ms since the epoch.

    Of a chunk, which isn't decoded for that, its own.
    """
    return records.chunk.timestamp if isinstance(records, ChunkSlice) else records[0].timestamp


def offsets_of(records: Records) -> Sequence[int]:
    """Return the offset of each record."""
    return records.offsets if isinstance(records, ChunkSlice) else [record.offset for record in records]

"""Records that a processor has and doesn't decode: bytes of which only offsets are known."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, overload

from headrace.runtime.wire.records import Buffer, Headers, WireRecord
from headrace.runtime.wire.undecoded import Decode

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
    """Of its first record, ms since the epoch, where its source says that without decoding it."""
    held: object = None
    """Whoever counts what the data is a part of knows by this that some of it is still needed."""
    id: int = field(default_factory=_next_id)  # on the wire

    @property
    def record_bytes(self) -> int:
        """Of one, on average, as they are kept."""
        return len(self.data) // self.count + 1


class ChunkRecord(NamedTuple):
    """One of them, decoded when somebody asks for more than its offset."""

    chunk: Chunk
    offset: int

    def _decoded(self) -> WireRecord:
        chunk = self.chunk
        (record,) = chunk.decode(chunk.data, self.offset - chunk.first, must_live=True).read(1)
        return record

    @property
    def timestamp(self) -> int:
        """As WireRecord says."""
        return self._decoded().timestamp

    @property
    def timestamp_type(self) -> int | None:
        """As WireRecord says."""
        return self._decoded().timestamp_type

    @property
    def key(self) -> bytes | None:
        """As WireRecord says."""
        return self._decoded().key

    @property
    def value(self) -> bytes | None:
        """As WireRecord says."""
        return self._decoded().value

    @property
    def headers(self) -> Headers:
        """As WireRecord says."""
        return self._decoded().headers


class ChunkSlice(Sequence[WireRecord]):
    """Consecutive records of one chunk; its slices are views of the same bytes."""

    __slots__ = ("chunk", "offsets")

    def __init__(self, chunk: Chunk, offsets: range | None = None) -> None:
        """All of it, or those at `offsets`, which lie in it."""
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


def first_timestamp(records: Sequence[WireRecord]) -> int | None:
    """Ms since the epoch. Nothing is decoded for that: of a chunk it is that of its first record."""
    return records.chunk.timestamp if isinstance(records, ChunkSlice) else records[0].timestamp


def offsets_of(records: Sequence[WireRecord]) -> Sequence[int]:
    """Of each."""
    return records.offsets if isinstance(records, ChunkSlice) else [record.offset for record in records]

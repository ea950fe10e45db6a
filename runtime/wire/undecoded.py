"""Undecoded chunks: how they are decoded, which of them a worker keeps, records that can't be decoded."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NoReturn, Protocol, TypeAlias, TypeVar

from headrace.runtime.wire.records import WireRecord

T = TypeVar("T")

_MAX_CACHED_BYTES = 2 << 20


class DecodedRecords(Protocol):
    """Records of one chunk, in order.

    A protocol, since workers import no trigger: each trigger brings its decoder, named by a path.
    """

    def read(self, count: int) -> Sequence[WireRecord]:
        """Return the next records: fewer than `count` where that is the end.

        Raises nothing: where bytes are no record, an UndecodableRecord stands for it.
        """


Decode: TypeAlias = Callable[..., DecodedRecords]
"""`decode(data, skip=0, *, must_live=False)` returns the records of a chunk, without the first `skip`.

A trigger names it by `module:function`. `must_live`: a process reads them that may not die of their bytes, so
these are looked at first.
"""


class UndecodableError(Exception):
    """The bytes of a record are none, though their checksum is right."""


class UndecodableRecord:
    """Stands for a record that can't be decoded, in workers and processors. Reading its content raises."""

    def __init__(self, offset: int, why: Exception) -> None:
        self.offset = offset
        self._why = why

    @property
    def why(self) -> str:
        """Reason, in one line."""
        return f"the record can't be decoded ({self._why!r})"

    def _raise(self) -> NoReturn:
        raise UndecodableError(self.why)

    _unknown: Any = property(_raise)
    # Whoever handles the record finds out, and its failure says why.
    timestamp = timestamp_type = key = value = headers = _unknown


class ChunkCache(Generic[T]):
    """Chunks that a worker process keeps: those that were used last and not to their end, as many as fit.

    Processor and worker have one each, and make the same calls in the order of the SLICE frames: `get`, and
    `put` where that returns None; then `drop` where the slice goes to the chunk's end. So both know what is
    kept, and no frame has to say so.
    """

    def __init__(self, max_bytes: int = _MAX_CACHED_BYTES) -> None:
        """`max_bytes`: for all chunks together; the last one is kept whatever its size."""
        self._max_bytes = max_bytes
        # In order of use: the one that was used last is last.
        self._kept: dict[int, tuple[T, int]] = {}
        self._size_bytes = 0

    def __contains__(self, chunk_id: int) -> bool:
        return chunk_id in self._kept

    def get(self, chunk_id: int) -> T | None:
        """Return a chunk, which is the last used then; None where it isn't kept."""
        kept = self._kept.pop(chunk_id, None)
        if kept is None:
            return None
        self._kept[chunk_id] = kept
        return kept[0]

    def put(self, chunk_id: int, chunk: T, size_bytes: int) -> None:
        """Keep a chunk from now on, and drop what doesn't fit any more."""
        self._kept[chunk_id] = (chunk, size_bytes)
        self._size_bytes += size_bytes
        # The one that was used longest ago first. Never the last one: its slice is on its way.
        while self._size_bytes > self._max_bytes and len(self._kept) > 1:
            _, dropped_bytes = self._kept.pop(next(iter(self._kept)))
            self._size_bytes -= dropped_bytes

    def drop(self, chunk_id: int) -> None:
        """Drop a chunk that was used to its end."""
        _, dropped_bytes = self._kept.pop(chunk_id)
        self._size_bytes -= dropped_bytes

    def has_place_for(self, chunk_id: int, size_bytes: int) -> bool:
        """Whether a chunk is here, or can be without another one being dropped."""
        return chunk_id in self._kept or self._size_bytes + size_bytes <= self._max_bytes or not self._kept

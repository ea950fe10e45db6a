"""What a trigger's decoder is: it opens chunks, in workers and where a processor has to look into one."""

from collections.abc import Sequence
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from headrace.runtime.wire.records import Buffer, WireRecord


class DecodedRecords(Protocol):
    """Of one chunk, in order. Reading raises nothing: UndecodableRecords come where its bytes are none."""

    def read(self, count: int) -> Sequence[WireRecord]:
        """The next ones: fewer than `count` where that is the end."""


class Decode(Protocol):
    """A trigger names it by `module:function`."""

    def __call__(self, data: Buffer, skip: int = 0, /, *, must_live: bool = False) -> DecodedRecords:
        """All that are in a chunk, without the first `skip`.

        `must_live`: what comes is read by a process that may not die of it, so it is looked at first.
        """


class UndecodableError(Exception):
    """Its bytes are no record, though their checksum is right."""


class UndecodableRecord:
    """Stands for such a record, in a worker and in a processor: asking what it holds says why."""

    def __init__(self, offset: int, why: Exception) -> None:
        self.offset = offset
        self._why = why

    @property
    def why(self) -> str:
        """In one line."""
        return f"the record can't be decoded ({self._why!r})"

    def _raise(self) -> NoReturn:
        raise UndecodableError(self.why)

    _unknown: Any = property(_raise)
    timestamp = timestamp_type = key = value = headers = _unknown


T = TypeVar("T")


_MAX_BYTES = 2 << 20


class ChunkCache(Generic[T]):
    """Those that were used last, as many as fit; the last one always. None that was used to its end.

    Each end calls `get`, and `put` where that says None, once for each SLICE frame, in their order; then
    `drop` where that goes to the chunk's end.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: dict[int, tuple[T, int]] = {}  # the last used is last
        self._size_bytes = 0

    def __contains__(self, chunk_id: int) -> bool:
        return chunk_id in self._kept

    def get(self, chunk_id: int) -> T | None:
        """Use it; None where it isn't kept."""
        kept = self._kept.pop(chunk_id, None)
        if kept is None:
            return None
        self._kept[chunk_id] = kept
        return kept[0]

    def put(self, chunk_id: int, chunk: T, size_bytes: int) -> None:
        """Keep it from now on, and drop what doesn't fit any more."""
        self._kept[chunk_id] = (chunk, size_bytes)
        self._size_bytes += size_bytes
        while self._size_bytes > self._max_bytes and len(self._kept) > 1:
            _, dropped_bytes = self._kept.pop(next(iter(self._kept)))
            self._size_bytes -= dropped_bytes

    def drop(self, chunk_id: int) -> None:
        """It was used to its end."""
        _, dropped_bytes = self._kept.pop(chunk_id)
        self._size_bytes -= dropped_bytes

    def has_place_for(self, chunk_id: int, size_bytes: int) -> bool:
        """Whether it is here, or can be without another one being dropped."""
        return chunk_id in self._kept or self._size_bytes + size_bytes <= self._max_bytes or not self._kept

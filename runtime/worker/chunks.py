"""Undecoded chunks in a worker process, read from their beginning to their end, some records at a time."""

from collections.abc import Sequence

from headrace.runtime.wire.chunk_cache import ChunkCache
from headrace.runtime.wire.decoder import Decode, DecodedRecords
from headrace.runtime.wire.records import Buffer, WireRecord

_AT_ONCE = 500


def no_decoder(_: Buffer, __: int = 0, **___: bool) -> DecodedRecords:
    """Where all records come decoded."""
    raise AssertionError("the trigger has named no decoder")


class ReceivedChunk:
    """Decodes no further than it is read. Not for two threads at once: the inbox holds its lock."""

    def __init__(self, data: bytes, decode: Decode) -> None:
        self._data = data
        self._decode = decode
        self._records: DecodedRecords
        self._at: int | None = None  # how many were read; None where it has to begin anew

    def read(self, skip: int, count: int) -> Sequence[WireRecord]:
        """`count` records without the first `skip`."""
        if self._at is None or skip < self._at:
            self._records, self._at = self._decode(self._data, skip), skip
        while self._at < skip:  # another worker has had those
            self._at += len(self._records.read(min(skip - self._at, _AT_ONCE)))
        self._at = skip + count
        return self._records.read(count)


class ReceivedChunks:
    """Those that slices refer to, kept by the same rule as at the processor's end."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._kept: ChunkCache[ReceivedChunk] = ChunkCache()
        self._new = b""  # the next slice says its name

    def receive(self, data: bytes) -> None:
        """One that the next slice is the first of."""
        self._new = data

    def of_slice(self, chunk_id: int, *, is_end: bool) -> ReceivedChunk:
        """The one that a slice refers to, at its end for the last time."""
        chunk = self._kept.get(chunk_id)
        if chunk is None:
            chunk = ReceivedChunk(self._new, self._decode)
            self._kept.put(chunk_id, chunk, len(self._new))
            self._new = b""
        if is_end:
            self._kept.drop(chunk_id)
        return chunk

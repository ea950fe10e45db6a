"""Undecoded chunks in a worker process, read from their beginning to their end, some records at a time."""

from collections.abc import Sequence

from headrace.runtime.wire.decoder import Decode, Records
from headrace.runtime.wire.frames import Buffer, WireRecord

_AT_ONCE = 500


def no_decoder(_: Buffer, __: int = 0, **___: bool) -> Records:
    """Where all records come decoded."""
    raise AssertionError("the trigger has named no decoder")


class ReceivedChunk:
    """Decodes no further than it is read. Not for two threads at once: the inbox holds its lock."""

    def __init__(self, data: bytes, decode: Decode) -> None:
        self._data = data
        self._decode = decode
        self._records: Records
        self._at: int | None = None  # how many were read; None where it has to begin anew

    def read(self, skip: int, count: int) -> Sequence[WireRecord]:
        """`count` records without the first `skip`."""
        if self._at is None or skip < self._at:
            self._records, self._at = self._decode(self._data, skip), skip
        while self._at < skip:  # another worker has had those
            self._at += len(self._records.read(min(skip - self._at, _AT_ONCE)))
        self._at = skip + count
        return self._records.read(count)

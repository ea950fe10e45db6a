"""Undecoded chunks in a worker process, read from their beginning to their end, some records at a time."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

Decode: TypeAlias = Callable[[bytes, int], Iterator[Any]]


def no_decoder(_: bytes, __: int) -> Iterator[Any]:
    """Where all records come decoded."""
    raise AssertionError("the trigger has named no decoder")


class ReceivedChunk:
    """Decodes no further than it is read. Not for two threads at once: the inbox holds its lock."""

    def __init__(self, data: bytes, decode: Decode) -> None:
        self._data = data
        self._decode = decode
        self._records: Iterator[Any] = iter(())
        self._at: int | None = None  # how many were read; None where it has to begin anew

    def read(self, skip: int, count: int) -> Sequence[Any]:
        """`count` records without the first `skip`."""
        if self._at is None or skip < self._at:
            self._records, self._at = self._decode(self._data, skip), skip
        found = list(islice(self._records, skip - self._at, skip - self._at + count))
        self._at = skip + count
        return found

"""Fetched bytes, batch by batch, for a processor that decodes: all formats, nothing of it trusted.

Stands for aiokafka's MemoryRecords, whose readers decompress without a bound and trust lengths.
"""

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch

from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.undecoded import UndecodableRecord
from headrace.triggers.kafka.format.decoder import CODEC_MASK, HEADER, check_headers, opened
from headrace.triggers.kafka.format.inflate import padded
from headrace.triggers.kafka.format.old_batch import LEAST_BYTES, OldBatch

_BEFORE_LENGTH, _LENGTH_AT, _MAGIC_AT = 12, 8, 16
_MAGIC = 2


def _nothing() -> None:
    """Do nothing: the default of `on_undecodable`."""


class FetchedBatches:
    """Batches in `data`, which may end within one.

    One that can't be opened is an UndecodableRecord an offset.
    """

    def __init__(self, data: bytes, max_batch_bytes: int) -> None:
        self.data = memoryview(data)
        self._max_batch_bytes = max_batch_bytes
        self._at = 0
        self.position = 0
        """Nobody wants what lies before that offset."""
        self.on_undecodable: Callable[[], object] = _nothing
        """Called before the first UndecodableRecord of each batch."""

    def size_in_bytes(self) -> int:
        """Return the size of all, the incomplete end included."""
        return len(self.data)

    def has_next(self) -> bool:
        """Whether one more is complete, or has a length that no batch has."""
        return len(self.data) - self._at >= _BEFORE_LENGTH and self._end <= len(self.data)

    def next_batch(self) -> Any:
        """Return the next batch. Raises CorruptRecordException where its header can't be true.

        Nothing behind such a header can be found.
        """
        if not self.has_next():
            return None
        batch = self.data[self._at : max(self._end, self._at)]
        # A length of a batch that is too short for any format is garbage, as is a format that doesn't exist.
        magic = batch[_MAGIC_AT] if len(batch) >= LEAST_BYTES else -1
        if magic not in {0, 1, _MAGIC} or (magic == _MAGIC and len(batch) < HEADER.size):
            raise CorruptRecordException(f"no batch has format {magic} and {len(batch)} bytes")
        self._at += len(batch)
        if magic == _MAGIC:
            return _Batch(batch, self._max_batch_bytes, self.position, self.on_undecodable)
        return OldBatch(batch, self._max_batch_bytes)

    @property
    def _end(self) -> int:
        length = self.data[self._at + _LENGTH_AT : self._at + _BEFORE_LENGTH]
        return self._at + _BEFORE_LENGTH + int.from_bytes(length, "big", signed=True)


class _Batch:
    """A batch of format v2, opened when it is read, which is after its checksum was looked at."""

    def __init__(
        self, data: memoryview, max_batch_bytes: int, position: int, on_undecodable: Callable[[], object]
    ) -> None:
        # aiokafka's reader is written in C, and trusts lengths.
        # Padded: the reader may look past an end. What is compressed it doesn't read.
        self._batch: Any = DefaultRecordBatch(padded(data))
        self._data = data
        self._max_batch_bytes = max_batch_bytes
        self._position = position
        self._on_undecodable = on_undecodable
        self.base_offset: int = self._batch.base_offset
        self.next_offset: int = self._batch.next_offset
        self.producer_id: int | None = self._batch.producer_id
        self.is_control_batch: bool = self._batch.is_control_batch
        self.is_transactional: bool = self._batch.is_transactional
        if self.next_offset <= self.base_offset:
            raise CorruptRecordException("a batch ends before it begins")

    def validate_crc(self) -> bool:
        return bool(self._batch.validate_crc())

    def __iter__(self) -> Iterator[WireRecord]:
        """Return an iterator, not a generator: each record would go through it."""
        if not self._batch.attributes & CODEC_MASK:
            return iter(self._batch)
        try:
            data = opened(self._data, self._max_batch_bytes)
            check_headers(data, self._max_batch_bytes)
        except Exception as error:  # codecs raise what they like
            self._on_undecodable()
            offsets = range(max(self.base_offset, self._position), self.next_offset)
            return map(UndecodableRecord, offsets, repeat(error))
        return iter(DefaultRecordBatch(data))

    def __next__(self) -> Any:
        """Return the marker in a control batch, which nobody compresses."""
        return next(self._batch)

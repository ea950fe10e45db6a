"""Batches of the formats v0 and v1: a record each, or a compressed set of them.

Read here, because aiokafka's reader in C takes any length in a set for true, and looks wherever it points.
"""

import struct
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from aiokafka.errors import CorruptRecordException

from headrace.triggers.kafka.format.inflate import inflate

LEAST_BYTES = 26  # of a record in the oldest format
_HEADERS = (struct.Struct(">qiIBB"), struct.Struct(">qiIBBq"))
"""Offset, length behind it, CRC, magic, attributes, and with v1 a timestamp."""
_LENGTH = struct.Struct(">i")
_CHECKED_FROM = 16
_BEFORE_LENGTH = 12
_CODEC_MASK, _APPEND_TIME = 0x07, 0x08
_LZ4 = 3


@dataclass(frozen=True, slots=True)
class OldRecord:
    """A record of an old format, with aiokafka's names."""

    offset: int
    timestamp: int | None
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    checksum: int
    attributes: int

    @property
    def headers(self) -> tuple[()]:
        """No headers: old formats have none."""
        return ()


class OldBatch:
    """A batch of an old format. Raises CorruptRecordException, or what a codec raises, where it isn't one."""

    is_control_batch: ClassVar[bool] = False
    is_transactional: ClassVar[bool] = False
    producer_id: ClassVar[int | None] = None

    def __init__(self, data: memoryview, max_batch_bytes: int) -> None:
        self._data = data
        self._max_batch_bytes = max_batch_bytes
        self._outer, _ = _read(data, 0)
        self.base_offset = self._outer.offset
        self.next_offset = self._outer.offset + 1

    def validate_crc(self) -> bool:
        """Whether the checksum fits the record, or the set as it was compressed."""
        return zlib.crc32(self._data[_CHECKED_FROM:]) == self._outer.checksum

    def __iter__(self) -> Iterator[OldRecord]:
        outer, magic = self._outer, self._data[_CHECKED_FROM]
        if not (codec := outer.attributes & _CODEC_MASK):
            yield outer
            return
        # LZ4 in format v0 has a wrong checksum in its frames, which the codec refuses.
        if outer.value is None or (codec == _LZ4 and not magic):
            raise CorruptRecordException("a set of records that can't be decompressed")
        data = inflate(codec, outer.value, self._max_batch_bytes)
        # With v1 they count from the first one, and the set has the offset of the last.
        last = next(iter(deque(_inner(data), maxlen=1)), None)
        base = outer.offset - last.offset if magic and last is not None else 0
        is_append_time = outer.timestamp_type == 1
        for record in _inner(data):
            yield OldRecord(
                base + record.offset,
                outer.timestamp if is_append_time else record.timestamp,
                outer.timestamp_type,
                record.key,
                record.value,
                record.checksum,
                record.attributes,
            )


def _inner(data: memoryview) -> Iterator[OldRecord]:
    at = 0
    while at < len(data):
        record, at = _read(data, at)
        if record.attributes & _CODEC_MASK:
            raise CorruptRecordException("a set of records in a set of records")
        yield record


def _read(data: memoryview, at: int) -> tuple[OldRecord, int]:
    """Return the record at `at`, and where it ends."""
    try:
        header = _HEADERS[data[at + _CHECKED_FROM]]
        offset, length, checksum, _, attributes, *timestamp = header.unpack_from(data, at)
        end = at + _BEFORE_LENGTH + length
        key, at = _blob(data, at + header.size)
        value, at = _blob(data, at)
    except (struct.error, IndexError) as error:
        raise CorruptRecordException(f"a record that ends too early ({error})") from None
    if at != end:
        raise CorruptRecordException(f"a record of {length} bytes that ends elsewhere")
    time = timestamp[0] if timestamp and timestamp[0] != -1 else None
    kind = None if time is None else int(bool(attributes & _APPEND_TIME))
    return OldRecord(offset, time, kind, key, value, checksum, attributes), end


def _blob(data: memoryview, at: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    if length == -1:
        return None, at
    if not 0 <= length <= len(data) - at:
        raise CorruptRecordException(f"a field of {length} bytes, where {len(data) - at} are left")
    return bytes(data[at : at + length]), at + length

"""Kafka's record batches, format v2, to records: in workers, and in a processor where it has to look.

Workers import this, and with it aiokafka, whose reader is written in C.
"""

import struct
from collections.abc import Iterator
from itertools import islice

from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint

from headrace.runtime.wire.frames import Buffer, Headers, SentRecord, WireRecord, encode_headers
from headrace.runtime.wire.undecodable import UndecodableRecord

HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length behind it, leader epoch, magic, CRC, attributes, last offset delta, first and last
timestamp, producer id and epoch, base sequence, count."""
CODEC_MASK = 0x07
APPEND_TIME = 0x08
_BEFORE_LENGTH = 12
_DECOMPRESS = {1: gzip_decode, 2: snappy_decode, 3: lz4_decode, 4: zstd_decode}


def decode(data: Buffer, skip: int = 0) -> Iterator[WireRecord]:
    """Of the batches in `data`, which are complete, checked, and no control batches: all but `skip` records.

    Batches that are skipped are not looked into. What can't be decoded comes as UndecodableRecords.
    """
    view = memoryview(data)
    at = 0
    while at < len(view):
        first, length, *_, count = HEADER.unpack_from(view, at)
        end = at + _BEFORE_LENGTH + length
        if skip < count:
            yield from islice(_records(bytes(view[at:end]), first, count), skip, None)
        skip = max(0, skip - count)
        at = end


def _records(data: bytes, first: int, count: int) -> Iterator[WireRecord]:
    """One batch: `count` of them, whatever it holds."""
    done = 0
    why: Exception = ValueError("its batch has fewer records than it says")
    try:
        try:
            for done, record in enumerate(_opened(data), 1):  # noqa: B007  # `done` is needed below
                yield record
        except UnicodeDecodeError:  # the name of a header
            for done, record in enumerate(islice(_decode_any_names(data), done, None), done + 1):  # noqa: B007, B020
                yield record
    except Exception as error:  # codecs raise what they like
        why = error
    for offset in range(first + done, first + count):
        yield UndecodableRecord(offset, why)


def _opened(data: bytes) -> Iterator[WireRecord]:
    batch: Iterator[WireRecord] = MemoryRecords(data).next_batch()
    return batch


def _decode_any_names(data: bytes) -> Iterator[WireRecord]:
    """One batch. aiokafka takes only UTF-8 for a header's name; any bytes may be one."""
    first, length, *_, attributes, _, first_ms, last_ms, _, _, _, count = HEADER.unpack_from(data)
    packed = data[HEADER.size : _BEFORE_LENGTH + length]
    codec = attributes & CODEC_MASK
    reader = _Reader(bytearray(_DECOMPRESS[codec](packed) if codec else packed))
    is_append_time = bool(attributes & APPEND_TIME)
    for _ in range(count):
        reader.number()  # the record's length
        reader.number()  # its attributes: none is in use
        delta_ms, offset = reader.number(), first + reader.number()
        timestamp = last_ms if is_append_time else first_ms + delta_ms
        key, value, headers = reader.blob(), reader.blob(), encode_headers(reader.headers())
        yield SentRecord(offset, timestamp, int(is_append_time), key, value, headers)


class _Reader:
    def __init__(self, data: bytearray) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        number: int
        number, self._at = decode_varint(self._data, self._at)
        return number

    def blob(self) -> bytes | None:
        length = self.number()
        if length < 0:
            return None
        self._at += length
        return bytes(self._data[self._at - length : self._at])

    def headers(self) -> Headers:
        return [
            ((self.blob() or b"").decode(errors="surrogateescape"), self.blob()) for _ in range(self.number())
        ]

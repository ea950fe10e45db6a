"""Kafka's record batches, format v2, to records: in workers, and in a processor where it has to look.

Workers import this, and with it aiokafka, whose reader is written in C. It may look a few bytes past an end,
so it gets nothing that has no zeros behind it.
"""

import struct
from collections.abc import Iterator
from itertools import islice

from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.util import decode_varint

from headrace.runtime.wire.framing import Buffer
from headrace.runtime.wire.records import Headers, SentRecord, WireRecord, encode_headers
from headrace.runtime.wire.undecoded import UndecodableRecord
from headrace.triggers.kafka.format.inflate import BatchTooLargeError, inflate, padded

HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length behind it, leader epoch, magic, CRC, attributes, last offset delta, first and last
timestamp, producer id and epoch, base sequence, count."""
CODEC_MASK = 0x07
APPEND_TIME = 0x08
MAX_BATCH_BYTES = 64 * 1024 * 1024
"""maxBatchBytes, where nobody has said more."""
_BEFORE_LENGTH = 12
_ATTRIBUTES_AT = 21
_LARGE_BYTES = 4 * 1024 * 1024
_AT_ONCE = 100
_HEADER_BYTES = 128  # what a header takes once it is read, about


def decode(
    data: Buffer, skip: int = 0, *, max_batch_bytes: int = MAX_BATCH_BYTES, must_live: bool = False
) -> "ChunkReader":
    """Return a reader of the batches in `data`, but for the first `skip` records.

    They are complete, checked, and no control batches. Batches that are skipped are not looked into. What
    can't be decoded comes as UndecodableRecords, and so does a batch that opens to more than
    `max_batch_bytes`. Ends where there is no batch. `must_live`: this process may not die of what is in
    there, which has to be looked at first.
    """
    return ChunkReader(memoryview(data), skip, max_batch_bytes, must_live)


class ChunkReader:
    """A reader of one chunk, which decodes no further than it is read."""

    def __init__(self, view: memoryview, skip: int, max_batch_bytes: int, must_live: bool) -> None:
        self._take = _Take()
        # It does not know this object: a cycle would keep a chunk until cycles are looked for.
        self._steps: Iterator[None] = _read_batches(view, skip, self._take, max_batch_bytes, must_live)
        self._plain = view if not skip and len(view) < _LARGE_BYTES else None

    def __iter__(self) -> Iterator[WireRecord]:
        """Yield all records that are left."""
        while records := self.read(_AT_ONCE):
            yield from records

    def read(self, count: int) -> list[WireRecord]:
        """Return the next records: fewer than `count` where that is the end."""
        # Tried once, at the first read: most small chunks end here.
        plain, self._plain = self._plain, None
        if plain is not None and (all_of_it := _read_plain(plain, count)):
            self._steps = iter(())
            return all_of_it
        self._take.wanted = count
        next(self._steps, None)
        found, self._take.found = self._take.found, []
        return found


def _read_plain(view: memoryview, count: int) -> list[WireRecord]:
    """Read in one step what most small chunks are: one uncompressed batch of `count` records.

    Return [] where it is something else, or isn't sound.
    """
    if len(view) < HEADER.size:
        return []
    _, length, _, _, _, attributes, *_, found = HEADER.unpack_from(view)
    if found != count or _BEFORE_LENGTH + length != len(view) or attributes & CODEC_MASK:
        return []
    try:
        records = list(DefaultRecordBatch(padded(view)))
    except Exception:  # it is looked at again, record by record
        return []
    return records if len(records) == count else []


class _Take:
    """Records that one read has found, and how many it wants."""

    def __init__(self) -> None:
        self.found: list[WireRecord] = []
        self.wanted = 0
        self.done = 0  # records of the batch that is read

    def all_of(self, records: Iterator[WireRecord]) -> Iterator[None]:
        """Take records to the end, by code in C: nothing is done here for each.

        Yields where enough are found.
        """
        while True:
            before = len(self.found)
            try:
                self.found.extend(islice(records, self.wanted - before))
            finally:  # those before an error are there
                self.done += len(self.found) - before
            if len(self.found) < self.wanted:
                return
            yield


def _read_batches(
    view: memoryview, skip: int, take: _Take, max_batch_bytes: int, must_live: bool
) -> Iterator[None]:
    at = 0
    while len(view) - at >= HEADER.size:
        first, length, *_, count = HEADER.unpack_from(view, at)
        end = at + _BEFORE_LENGTH + length
        if not at + HEADER.size <= end <= len(view):
            return
        if skip < count:
            take.done = skip
            offsets = range(first, first + count)
            yield from _read_batch(view[at:end], offsets, take, max_batch_bytes, must_live)
        skip = max(0, skip - max(0, count))
        at = end


def _read_batch(
    batch: memoryview, offsets: range, take: _Take, max_batch_bytes: int, must_live: bool
) -> Iterator[None]:
    """Take as many records as there are `offsets`, whatever the batch holds."""
    why: Exception = ValueError("its batch has fewer records than it says")
    try:
        data = opened(batch, max_batch_bytes)
        # Two bytes make a header, and one of aiokafka's takes a hundred: a small batch could take all memory.
        if must_live:
            check_headers(data, max_batch_bytes)
        try:
            yield from take.all_of(islice(DefaultRecordBatch(data), take.done, None))
        # aiokafka stops at a header's name that isn't UTF-8: the rest of this batch is read here.
        except UnicodeDecodeError:  # the name of a header
            yield from take.all_of(islice(_decode_any_names(data), take.done, None))
    except Exception as error:  # codecs raise what they like
        why = error
    yield from take.all_of(UndecodableRecord(offset, why) for offset in offsets[take.done :])


def opened(batch: memoryview, max_batch_bytes: int) -> memoryview:
    """Return a batch as if it had never been compressed, with zeros behind it, for aiokafka to read.

    Raises BatchTooLargeError, what a codec raises, and ValueError where it has no whole header.
    """
    if len(batch) < HEADER.size:
        raise ValueError(f"a batch of {len(batch)} bytes has no header")
    if not (codec := batch[_ATTRIBUTES_AT + 1] & CODEC_MASK):
        return padded(batch)
    head = bytearray(batch[: HEADER.size])
    head[_ATTRIBUTES_AT + 1] &= ~CODEC_MASK
    return inflate(codec, batch[HEADER.size :], max_batch_bytes, head)


def check_headers(data: memoryview, max_batch_bytes: int) -> None:
    """Raise BatchTooLargeError where the headers of one record take that much: two bytes are enough for one.

    For a batch that is open. One that isn't large is as large as it looks.
    """
    if len(data) < _LARGE_BYTES:
        return
    reader = _Reader(data, HEADER.size)
    for _ in range(HEADER.unpack_from(data)[-1]):
        if reader.skip_record() * _HEADER_BYTES > max_batch_bytes:
            raise BatchTooLargeError(max_batch_bytes)


def _decode_any_names(data: memoryview) -> Iterator[WireRecord]:
    """Decode an open batch whose header names are no UTF-8, which aiokafka refuses."""
    first, _, *_, attributes, _, first_ms, last_ms, _, _, _, count = HEADER.unpack_from(data)
    reader = _Reader(data, HEADER.size)
    is_append_time = bool(attributes & APPEND_TIME)
    for _ in range(count):
        reader.number()  # the record's length
        reader.number()  # its attributes: none is in use
        delta_ms, offset = reader.number(), first + reader.number()
        timestamp = last_ms if is_append_time else first_ms + delta_ms
        key, value, headers = reader.blob(), reader.blob(), encode_headers(reader.headers())
        yield SentRecord(offset, timestamp, int(is_append_time), key, value, headers)


class _Reader:
    """A reader of data with zeros behind it. Raises ValueError at its end, and past it."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._at = at

    def number(self) -> int:
        number: int
        self._check(1)
        number, self._at = decode_varint(self._data, self._at)
        return number

    def blob(self) -> bytes | None:
        length = self.number()
        if length < 0:
            return None
        self._check(length)
        self._at += length
        return bytes(self._data[self._at - length : self._at])

    def headers(self) -> Headers:
        return [
            ((self.blob() or b"").decode(errors="surrogateescape"), self.blob()) for _ in range(self.number())
        ]

    def skip_record(self) -> int:
        """Skip a record. Return how many headers it has."""
        end = self.number() + self._at
        for _ in range(3):  # attributes, time, offset
            self.number()
        for _ in range(2):  # key, value
            if (length := self.number()) > 0:
                self._check(length)
                self._at += length
        count = self.number()
        if not self._at <= end <= len(self._data):
            raise ValueError("a record that ends elsewhere")
        self._at = end
        return count

    def _check(self, size: int) -> None:
        if self._at + size > len(self._data):
            raise ValueError(f"{size} bytes are said to follow, and there are {len(self._data) - self._at}")

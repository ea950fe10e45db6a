"""Undecoded batches out of aiokafka's fetcher: all that reaches into its decoding, pinned to 0.14.

Batches of format v2 without a hole go through as they are, checked; others come as aiokafka decodes them. So
does, with read_committed, a whole answer that names aborted transactions: aiokafka finds their batches.
"""

import contextlib
import inspect
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer import fetcher as aiokafka_fetcher
from aiokafka.consumer.fetcher import READ_UNCOMMITTED, Fetcher, PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.structs import ConsumerRecord
from crc32c import crc32c

from headrace.runtime.partitions.chunk import Chunk, ChunkSlice
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.undecoded import UndecodableRecord
from headrace.triggers.kafka.client.internals import rebind_globals
from headrace.triggers.kafka.format.batches import FetchedBatches
from headrace.triggers.kafka.format.decoder import CODEC_MASK, HEADER, MAX_BATCH_BYTES, decode

# Small batches travel together up to this size: a worker starts on a piece when all of it has come.
PIECE_BYTES = 1 << 17
_BEFORE_LENGTH, _BEFORE_CHECKED = 12, 21
_LEAST_BYTES = 26  # of a batch in the oldest format
_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x08, 0x10, 0x20
_PLAIN = CODEC_MASK | _APPEND_TIME | _TRANSACTIONAL  # attributes that need no more than a decoder
_CODECS = 4
_MAGIC = 2
_ATTRIBUTES, _FIRST_TIMESTAMP, _LAST_TIMESTAMP = 22, 27, 35  # where they are in a batch
_ARGUMENTS = (
    "tp",
    "records",
    "aborted_transactions",
    "fetch_offset",
    "key_deserializer",
    "value_deserializer",
    "check_crcs",
    "isolation_level",
)

Hold = Callable[[TopicPartition, int], object]
"""A counter of a partition's bytes, for as long as what it returns is kept."""
OnFetched = Callable[[TopicPartition, bytes | memoryview], object]
"""A callback for the bytes that an answer has brought of a partition, before any of it is read."""


def _uncounted(_: TopicPartition, __: int) -> None:
    """Count nothing: the default of `hold`."""


def _ignored(_: TopicPartition, __: bytes | memoryview) -> None:
    """Ignore the bytes: the default of `on_fetched`."""


def fetch_undecoded(
    consumer: AIOKafkaConsumer,
    hold: Hold = _uncounted,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    on_fetched: OnFetched = _ignored,
) -> bool:
    """Let `consumer` fetch ChunkSlices among ConsumerRecords. Return whether it does.

    Where aiokafka looks different inside, nothing is changed.
    """
    batches = partial(_PartitionBatches, hold=hold, max_batch_bytes=max_batch_bytes, on_fetched=on_fetched)
    return _rebind_classes(consumer, MemoryRecords=_FetchedBytes, PartitionRecords=batches)


def fetch_counted(
    consumer: AIOKafkaConsumer,
    hold: Hold = _uncounted,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    on_fetched: OnFetched = _ignored,
) -> bool:
    """Have each answer held for as long as it lies there, where records are decoded here.

    Return whether it is. By itself aiokafka decompresses without a bound, and its readers trust what batches
    say.
    """
    return _rebind_classes(
        consumer,
        MemoryRecords=partial(FetchedBatches, max_batch_bytes=max_batch_bytes),
        PartitionRecords=partial(_CountedRecords, hold=hold, on_fetched=on_fetched),
    )


def _rebind_classes(consumer: AIOKafkaConsumer, **others: object) -> bool:
    """Give the method that takes in fetched data other names for classes that it uses.

    Other consumers of this process keep theirs.
    """
    fetcher: Any = consumer._fetcher  # noqa: SLF001
    method = getattr(Fetcher, "_proc_fetch_request", None)
    if not isinstance(method, FunctionType) or not _is_as_expected(method):
        return False
    # Only this fetcher's method: other consumers of the process keep aiokafka's classes.
    fetcher._proc_fetch_request = rebind_globals(method, fetcher, **others)  # noqa: SLF001
    return True


def _is_as_expected(method: FunctionType) -> bool:
    return (
        {"MemoryRecords", "PartitionRecords", "has_next", "size_in_bytes"} <= {*method.__code__.co_names}
        and method.__globals__.get("PartitionRecords") is aiokafka_fetcher.PartitionRecords
        and tuple(inspect.signature(PartitionRecords).parameters) == _ARGUMENTS
        and hasattr(PartitionRecords, "_unpack_records")
    )


def pieces(fetched: Sequence[Any]) -> Iterator[Sequence[WireRecord]]:
    """Split a partition's fetch: ConsumerRecords together, ChunkSlices one by one."""
    for is_slice, run in groupby(fetched, lambda item: isinstance(item, ChunkSlice)):
        if is_slice:
            yield from filter(len, run)  # one may lie below what was asked for
        else:
            yield list(run)


class _Batch(NamedTuple):
    """A batch's place in what was fetched. `size` is 0 where aiokafka has to decode it.

    It ends where it begins if its length can't be true: nothing behind it can be found.
    """

    first: int
    size: int
    begin: int
    end: int

    @property
    def next_offset(self) -> int:
        return self.first + self.size


class _FetchedBytes:
    """Stand-in for MemoryRecords that only keeps the bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._size = len(data)

    def has_next(self) -> bool:
        """Whether one batch at least is complete."""
        return _end_of_batch(self.data, 0) is not None

    def size_in_bytes(self) -> int:
        """Return the size of all, the incomplete end included."""
        return self._size


class _SafeRecords(PartitionRecords):  # type: ignore[misc]  # aiokafka is untyped
    """Records fetched of one partition: an iterator that the fetcher drains.

    It has aiokafka's own one, and is in no cycle with it: what is held is let go with this at once, however
    much of it was drained, and not when cycles are found, which may be never where nothing happens.
    """

    def __init__(self, tp: TopicPartition, records: Any, *others: Any) -> None:
        inner = self._inner = PartitionRecords(tp, records, *others)
        self._records_iterator, inner._records_iterator = inner._records_iterator, None  # noqa: SLF001
        records.position = inner.next_fetch_offset
        mix = weakref.WeakMethod(self._mix)
        records.on_undecodable = lambda: (it := mix()) and it()

    @property
    def next_fetch_offset(self) -> int:
        """The offset after what was drained."""
        offset: int = self._inner.next_fetch_offset
        return offset

    def _mix(self) -> None:
        """Let UndecodableRecords through. Not from the start: a call for each record costs a fifth of all."""
        plain = MethodType(PartitionRecords._consumer_record, weakref.proxy(self._inner))  # noqa: SLF001

        def either(tp: TopicPartition, record: Any) -> Any:
            return record if isinstance(record, UndecodableRecord) else plain(tp, record)

        self._inner._consumer_record = either  # noqa: SLF001


class _CountedRecords(_SafeRecords):
    """The same records, with their bytes counted."""

    def __init__(
        self,
        tp: TopicPartition,
        records: Any,
        *others: Any,
        hold: Hold = _uncounted,
        on_fetched: OnFetched = _ignored,
    ) -> None:
        super().__init__(tp, records, *others)
        self._held = hold(tp, records.size_in_bytes())
        on_fetched(tp, records.data)


class _PartitionBatches(PartitionRecords):  # type: ignore[misc]  # as above
    """Batches fetched of one partition, counted and undecoded."""

    _records: _FetchedBytes
    next_fetch_offset: int

    def __init__(  # noqa: PLR0913  # aiokafka's, and ours
        self,
        tp: TopicPartition,
        records: _FetchedBytes,
        aborted_transactions: Any,
        *others: Any,
        hold: Hold = _uncounted,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        on_fetched: OnFetched = _ignored,
    ) -> None:
        super().__init__(tp, records, aborted_transactions, *others)
        on_fetched(tp, records.data)
        self._aborted = aborted_transactions  # None, or none, unless with read_committed
        self._held = hold(tp, len(records.data))
        self._max_batch_bytes = max_batch_bytes
        self._decode = partial(decode, max_batch_bytes=max_batch_bytes)

    def _unpack_records(self) -> Iterator[ConsumerRecord | ChunkSlice]:
        this: Any = weakref.proxy(self)  # in no cycle, as above
        return _PartitionBatches._unpack(this)

    def _unpack(self) -> Iterator[ConsumerRecord | ChunkSlice]:
        data, decoded = self._records.data, partial(_PartitionBatches._decoded, self)
        if self._aborted:
            yield from decoded(data, self._aborted, self._isolation_level)
            return
        piece: list[_Batch] = []
        for batch in _batches(data):
            if piece and not _may_join(piece, batch):
                yield self._piece(data, piece)
                piece = []
            if not batch.size and batch.begin < batch.end:
                yield from decoded(data[batch.begin : batch.end])
                continue
            if not _is_sound(data, batch):
                if piece:
                    yield self._piece(data, piece)
                self.next_fetch_offset = max(self.next_fetch_offset, batch.first)
                raise CorruptRecordException(f"Invalid CRC or length - {self._tp}")
            piece.append(batch)
        if piece:
            yield self._piece(data, piece)

    def _piece(self, data: bytes, piece: Sequence[_Batch]) -> ChunkSlice:
        first, end = piece[0].first, piece[-1].next_offset
        begin = piece[0].begin
        batch = Chunk(
            first,
            end - first,
            memoryview(data)[begin : piece[-1].end],
            self._decode,
            _first_timestamp(data, begin),
            self._held,
        )
        wanted = range(max(first, self.next_fetch_offset), end)
        self.next_fetch_offset = max(self.next_fetch_offset, end)
        return ChunkSlice(batch, wanted)

    def _decoded(
        self, data: bytes, aborted: Any = None, isolation_level: int = READ_UNCOMMITTED
    ) -> Iterator[Any]:
        """Decode one batch that can't be forwarded: a control batch, an old format, one with holes.

        Or all batches, some of which were aborted.
        """
        records = _SafeRecords(
            self._tp,
            FetchedBatches(data, self._max_batch_bytes),
            aborted,
            self.next_fetch_offset,
            None,
            None,
            self._check_crcs,
            isolation_level,
        )
        try:
            for record in records:
                self.next_fetch_offset = records.next_fetch_offset
                yield record
        finally:
            with contextlib.suppress(ReferenceError):  # whoever drained it has dropped it amid this
                self.next_fetch_offset = max(self.next_fetch_offset, records.next_fetch_offset)


def _end_of_batch(data: bytes, at: int) -> int | None:
    """Return where the batch at `at` ends; None where it isn't complete."""
    if len(data) - at < _BEFORE_LENGTH:
        return None
    end = at + _BEFORE_LENGTH + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
    return end if end <= len(data) else None


def _batches(data: bytes) -> Iterator[_Batch]:
    at = 0
    while (end := _end_of_batch(data, at)) is not None:
        first = int.from_bytes(data[at : at + 8], "big", signed=True)
        if end - at < _least_bytes(data, at):
            yield _Batch(first, 0, at, at)
            return
        yield _Batch(first, _plain_size(data, at), at, end)
        at = end


def _first_timestamp(data: bytes, at: int) -> int:
    """Ms since the epoch, of the first record of the batch there."""
    is_append_time = data[at + _ATTRIBUTES] & _APPEND_TIME
    begin = at + (_LAST_TIMESTAMP if is_append_time else _FIRST_TIMESTAMP)
    return int.from_bytes(data[begin : begin + 8], "big", signed=True)


def _least_bytes(data: bytes, at: int) -> int:
    return HEADER.size if data[at + 16 : at + 17] == bytes([_MAGIC]) else _LEAST_BYTES


def _plain_size(data: bytes, at: int) -> int:
    if data[at + 16] != _MAGIC:
        return 0
    _, _, _, _, _, attributes, last_delta, *_, count = HEADER.unpack_from(data, at)
    is_plain = not attributes & ~_PLAIN and attributes & CODEC_MASK <= _CODECS and last_delta + 1 == count > 0
    return int(count) if is_plain else 0


def _may_join(piece: Sequence[_Batch], batch: _Batch) -> bool:
    is_next = batch.size and batch.first == piece[-1].next_offset
    return bool(is_next) and batch.end - piece[0].begin <= PIECE_BYTES


def _is_sound(data: bytes, batch: _Batch) -> bool:
    if batch.begin == batch.end:
        return False
    crc = crc32c(memoryview(data)[batch.begin + _BEFORE_CHECKED : batch.end])
    return crc == int.from_bytes(data[batch.begin + 17 : batch.begin + 21], "big")

"""Record batches as brokers keep them: any formats, codecs, holes and control batches, one after another."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from hypothesis import strategies as st

from headrace.runtime.partitions.chunk import Chunk, ChunkSlice
from headrace.runtime.wire.records import Headers
from headrace.triggers.kafka.format.decoder import decode

CONTROL, APPEND_TIME = 0x20, 0x08


@dataclass(frozen=True)
class Written:
    """A record on its way into a batch. `gap`: how many offsets before it hold nothing any more."""

    timestamp: int = 1_700_000_000_123
    key: bytes | None = None
    value: bytes | None = b"value"
    headers: Headers = ()
    gap: int = 0


def batch(
    base: int,
    records: Sequence[Written],
    *,
    codec: int = 0,
    attributes: int = 0,
    trailing_gap: int = 0,
    producer_id: int = -1,
) -> bytes:
    """Format v2. The offset after it is `end_of(base, records) + trailing_gap`."""
    is_transactional = int(producer_id >= 0)
    builder = DefaultRecordBatchBuilder(2, codec, is_transactional, producer_id, 0, 0, 1 << 24)
    at = 0
    for record in records:
        at += record.gap
        builder.append(at, record.timestamp, record.key, record.value, list(record.headers))
        at += 1
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base)
    struct.pack_into(">h", data, 21, struct.unpack_from(">h", data, 21)[0] | attributes)
    struct.pack_into(">i", data, 23, at - 1 + trailing_gap)
    return sealed(data)


def sealed(data: bytearray) -> bytes:
    """With the checksum that its bytes should have."""
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    return bytes(data)


def compressed(data: bytes, codec: int) -> bytes:
    """An uncompressed batch as a producer with that codec would have sent it."""
    encode = (bytes, gzip_encode, snappy_encode, lz4_encode, zstd_encode)[codec]
    packed = bytearray(data[:61] + encode(data[61:]))
    struct.pack_into(">i", packed, 8, len(packed) - 12)
    packed[22] |= codec
    return sealed(packed)


def old_batch(base: int, records: Sequence[Written], magic: int) -> bytes:
    """Format v0 or v1, uncompressed: a record each."""
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 24)
    for i, record in enumerate(records):
        builder.append(base + i, record.timestamp, record.key, record.value)
    return bytes(builder.build())


def control_batch(base: int, *, is_commit: bool) -> bytes:
    """The end of a transaction."""
    marker = Written(key=struct.pack(">hh", 0, is_commit), value=bytes(6))
    return batch(base, [marker], attributes=CONTROL, producer_id=7)


def emptied_batch(base: int, length: int) -> bytes:
    """What compaction leaves of a producer's last batch."""
    data = bytearray(batch(base, [Written()])[:61])
    struct.pack_into(">i", data, 8, 49)
    struct.pack_into(">i", data, 23, length - 1)
    struct.pack_into(">i", data, 57, 0)
    return sealed(data)


def end_of(base: int, records: Sequence[Written]) -> int:
    """The offset after them."""
    return base + sum(record.gap + 1 for record in records)


def undecoded(first: int, count: int, headers: Headers = ()) -> ChunkSlice:
    """What a trigger adds: a batch whose values are its offsets."""
    written = [Written(value=str(offset).encode(), headers=headers) for offset in range(first, first + count)]
    return ChunkSlice(Chunk(first, count, batch(first, written), decode))


some_bytes = st.none() | st.binary(max_size=30)
names = st.text(st.characters(codec="utf-8"), max_size=8)
plain_records = st.builds(
    Written,
    timestamp=st.integers(0, 2**45),
    key=some_bytes,
    value=some_bytes,
    headers=st.lists(st.tuples(names, some_bytes), max_size=3).map(tuple),
)
holed_records = st.builds(Written, value=some_bytes, gap=st.integers(0, 2))


@st.composite
def logs(draw: Any) -> tuple[bytes, int]:
    """Some batches, and an offset in the first, from which they were fetched."""
    at = draw(st.integers(0, 2**40))
    begin, data = -1, b""
    # Apart, because aiokafka's own reader fails where an old format meets v2.
    kinds = draw(st.sampled_from(["ppppphtce", "o"]))
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=8)):
        records = draw(st.lists(holed_records if kind == "h" else plain_records, min_size=1, max_size=12))
        codec = draw(st.integers(0, 4))
        if kind == "p":
            attributes = draw(st.sampled_from([0, APPEND_TIME]))
            data += batch(at, records, codec=codec, attributes=attributes)
        elif kind == "h":
            gap = draw(st.integers(0, 3))
            data += batch(at, records, codec=codec, trailing_gap=gap)
            at += gap
        elif kind == "t":
            data += batch(at, records, codec=codec, producer_id=7)
        elif kind == "c":
            data += control_batch(at, is_commit=draw(st.booleans()))
            records = records[:1]
        elif kind == "e":
            data += emptied_batch(at, len(records))
        else:
            data += old_batch(at, records, draw(st.integers(0, 1)))
        first, at = at, end_of(at, records)
        if begin < 0:
            begin = first if kind == "o" else draw(st.integers(first, at - 1))
    return data, begin

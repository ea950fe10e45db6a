"""Compressed sets of records in the formats v0 and v1, as clients before Kafka 0.11 write them."""

import gzip
import struct

import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from headrace.triggers.kafka.format.old_batch import OldBatch

GZIP, SNAPPY, LZ4 = 1, 2, 3
ATTRIBUTES, TIMESTAMP, APPEND_TIME = 17, 18, 0x08
VALUES = [b"first", None, b"third"]
BASE = 40


def compressed(magic: int, codec: int) -> bytearray:
    """Records from BASE on. With v0 they know their offsets, with v1 the set has that of the last."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for at, value in enumerate(VALUES):
        builder.append(at if magic else BASE + at, 1000 + at, b"key", value)
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, BASE + len(VALUES) - 1)
    return data


def opened(data: bytes | bytearray) -> OldBatch:
    return OldBatch(memoryview(data), 1 << 20)


@pytest.mark.parametrize(("magic", "codec"), [(0, GZIP), (0, SNAPPY), (1, GZIP), (1, SNAPPY), (1, LZ4)])
def test_a_compressed_set_has_its_records_at_their_offsets(magic: int, codec: int) -> None:
    batch = opened(compressed(magic, codec))
    records = list(batch)
    assert batch.validate_crc()
    assert batch.next_offset == BASE + len(VALUES)
    assert [it.offset for it in records] == [40, 41, 42]
    assert [(it.key, it.value) for it in records] == [(b"key", value) for value in VALUES]
    assert [it.timestamp for it in records] == ([1000, 1001, 1002] if magic else [None] * 3)


def test_where_the_broker_has_set_the_time_all_records_have_that_of_the_set() -> None:
    data = compressed(1, GZIP)
    data[ATTRIBUTES] |= APPEND_TIME
    struct.pack_into(">q", data, TIMESTAMP, 5000)
    assert [(it.timestamp, it.timestamp_type) for it in opened(data)] == [(5000, 1)] * 3


def test_lz4_in_the_oldest_format_and_a_set_without_data_are_refused() -> None:
    empty = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    empty.append(0, 1000, b"key", None)
    for data in (compressed(0, GZIP), bytearray(empty.build())):
        data[ATTRIBUTES] = LZ4
        with pytest.raises(CorruptRecordException, match="can't be decompressed"):
            list(opened(data))


def test_a_set_in_a_set_and_a_record_that_ends_elsewhere_are_refused() -> None:
    inner = compressed(1, GZIP)
    outer = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    outer.append(0, 1000, None, gzip.compress(bytes(inner)))
    data = bytearray(outer.build())
    data[ATTRIBUTES] = GZIP
    with pytest.raises(CorruptRecordException, match="in a set of records"):
        list(opened(data))
    struct.pack_into(">i", inner, 8, len(inner))
    with pytest.raises(CorruptRecordException, match="ends elsewhere"):
        opened(inner)

"""Run as a process that may die: reads bytes that no producer should have written, and says how far it came.

usage: hostile_bytes.py mutated SEED COUNT | one HEX | bomb MAX_BATCH_BYTES < BATCH
"""

import contextlib
import random
import resource
import struct
import sys
from collections.abc import Iterator

from aiokafka import TopicPartition
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode
from chunks import Written, batch, compressed, emptied_batch, old_batch, sealed

from headrace.runtime.partitions.chunk import ChunkSlice
from headrace.triggers.kafka.client import undecoded_fetch
from headrace.triggers.kafka.client.epochs import LeaderEpochs
from headrace.triggers.kafka.format.batches import FetchedBatches
from headrace.triggers.kafka.format.decoder import decode
from headrace.triggers.kafka.format.inflate import BatchTooLargeError

HEADERS = (("a", b"b"), ("long name", None))
NUMBERS = (-(2**63), -(2**31), -13, -12, -2, -1, 0, 1, 61, 2**31 - 1, 2**62, 2**63 - 1)
MAX_BATCH_BYTES = 1 << 20
SHOWN = 500


def read_all(data: bytes) -> None:
    """By every way in which bytes of a batch are read."""
    for must_live in (False, True):
        records = decode(data, max_batch_bytes=MAX_BATCH_BYTES, must_live=must_live)
        for _, record in zip(range(SHOWN), records, strict=False):
            touch(record)
    for level in (0, 1):
        where = [(7, 0)], 0, None, None, False, level
        tp, heard = TopicPartition("t", 0), LeaderEpochs(lambda: None).fetched
        bound = {"max_batch_bytes": MAX_BATCH_BYTES, "on_fetched": heard}
        fetched = undecoded_fetch._FetchedBytes(data)
        undecoded = undecoded_fetch._PartitionBatches(tp, fetched, *where, **bound)  # type: ignore[arg-type]
        decoded = undecoded_fetch._CountedRecords(
            tp, FetchedBatches(data, MAX_BATCH_BYTES), *where, on_fetched=heard
        )
        for found in (undecoded, decoded):
            with contextlib.suppress(Exception):  # a partition is cut off there
                for _, item in zip(range(SHOWN), found, strict=False):
                    touch(item)


def touch(item: object) -> None:
    if isinstance(item, ChunkSlice):
        for record in (item[0], item[-1]) if item else ():
            touch(record)
        return
    for name in ("key", "value", "headers"):
        with contextlib.suppress(Exception):  # UndecodableError
            getattr(item, name, None)


def varint(number: int) -> bytes:
    number, found = ((number << 1) ^ (number >> 63)) & (2**64 - 1), bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def mutated(rng: random.Random) -> Iterator[bytes]:
    """Real batches of any format and codec, with some bytes that are others, and the checksum that fits."""
    while True:
        records = [Written(key=b"k", value=bytes(rng.randrange(9)), headers=HEADERS)] * rng.randrange(1, 4)
        codec = rng.randrange(5)
        if rng.random() < 0.3:
            yield old_set(rng, records)
            continue
        data = bytearray(batch(0, records, producer_id=rng.choice([-1, 7])))
        if rng.random() < 0.1:
            data = bytearray(emptied_batch(0, 3))
        is_inside = rng.random() < 0.7
        if is_inside:
            data[61:] = spoilt(rng, bytes(data[61:]))
            struct.pack_into(">i", data, 8, len(data) - 12)
        data = bytearray(compressed(bytes(data), codec))
        if rng.random() < 0.5:
            data = bytearray(spoilt(rng, bytes(data)))
        yield sealed(data) if len(data) > 21 else bytes(data)


def old_set(rng: random.Random, records: list[Written]) -> bytes:
    """A compressed one, spoilt inside or outside."""
    magic = rng.randrange(2)
    codec, encode = rng.choice([(1, gzip_encode), (2, snappy_encode), (3, lz4_encode)])
    inner = spoilt(rng, b"".join(old_batch(n, [record], magic) for n, record in enumerate(records)))
    data = bytearray(old_batch(5, [Written(value=encode(inner))], magic))
    data[17] |= codec
    return spoilt(rng, bytes(data)) if rng.random() < 0.3 else bytes(data)


def spoilt(rng: random.Random, data: bytes) -> bytes:
    """Some of it is something else, most often a number."""
    found = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at, number = rng.randrange(len(found) + 1), rng.choice(NUMBERS)
        as_int32 = struct.pack(">i", max(-(2**31), min(number, 2**31 - 1)))
        new = rng.choice([varint(number), as_int32, rng.randbytes(rng.randrange(9))])
        found[at : at + rng.choice([0, 1, len(new)])] = new
        if rng.random() < 0.1:
            del found[rng.randrange(len(found) + 1) :]
    return bytes(found)


def bomb(codec: int, size: int) -> bytes:
    """One record of so many zeros."""
    return compressed(batch(0, [Written(value=bytes(size))]), codec)


def main(what: str, *arguments: str) -> None:
    if what == "mutated":
        rng, count = random.Random(int(arguments[0])), int(arguments[1])
        for number, data in zip(range(count), mutated(rng), strict=False):
            sys.stdout.write(f"{number} {data.hex()}\n")
            sys.stdout.flush()
            read_all(data)
            read_all(rng.randbytes(rng.randrange(120)))
    elif what == "one":
        read_all(bytes.fromhex(arguments[0]))
    else:
        data, limit = sys.stdin.buffer.read(), int(arguments[0])
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for must_live in (False, True):
            (found,) = decode(data, max_batch_bytes=limit, must_live=must_live)
            assert isinstance(found._why, BatchTooLargeError), found  # type: ignore[attr-defined]
        (found,) = next(FetchedBatches(data, limit).next_batch() for _ in range(1))
        assert isinstance(found._why, BatchTooLargeError), found
        sys.stdout.write(str((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) >> 10))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Batches that no producer should write: nothing opens without a bound, and no bytes end a processor."""

import struct
import subprocess
import sys
from pathlib import Path

import hostile_bytes
import pytest
from chunks import Written, batch, compressed, sealed, undecoded
from replica import environment
from root import ROOT
from worker_bench import bench, until

from headrace.runtime.config.delivery_policy import DeliveryPolicy, FailurePolicy
from headrace.runtime.partitions.chunk import Chunk, ChunkSlice
from headrace.runtime.partitions.status import is_stuck, problem
from headrace.triggers.kafka.format.decoder import decode

MIB = 1 << 20
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def in_a_child(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tests/support/hostile_bytes.py"), *map(str, arguments)],
        env=environment(PYTHONPATH=str(ROOT / "tests/support")),
        input=stdin,
        capture_output=True,
        check=False,
    )


def test_81_bytes_do_not_end_a_process() -> None:
    """A header's name that is no text, and behind it a length that points anywhere."""
    name, far = b"\x02\xff", hostile_bytes.varint(2**62)
    fields = b"\x00\x00\x00" + b"\x01" + b"\x01" + b"\x04" + name + b"\x01" + far
    record = hostile_bytes.varint(len(fields)) + fields
    data = bytearray(batch(0, [Written()])[:61]) + record
    struct.pack_into(">i", data, 8, len(data) - 12)
    assert len(data) == 81
    done = in_a_child("one", sealed(data).hex())
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
def test_no_bytes_end_the_process_that_decodes_them(seed: int) -> None:
    done = in_a_child("mutated", seed, 800)
    last = done.stdout.decode().splitlines()[-1:]
    assert done.returncode == 0, f"{done.returncode} after {last}: {done.stderr.decode()}"


@pytest.mark.full_but("1")
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_takes_no_more_memory_than_a_batch_may(codec: int) -> None:
    done = in_a_child("bomb", 16 * MIB, stdin=hostile_bytes.bomb(codec, 256 * MIB))
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) < 64


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_of_exactly_the_limit_is_opened(codec: int) -> None:
    plain = batch(0, [Written(value=bytes(MIB))])
    data, size = compressed(plain, codec), len(plain) - 61
    (fits,) = decode(data, max_batch_bytes=size)
    assert fits.value == bytes(MIB)
    (too_large,) = decode(data, max_batch_bytes=size - 1)
    with pytest.raises(Exception, match="maxBatchBytes"):
        _ = too_large.value


def test_a_record_of_nothing_but_headers_is_not_read_where_it_would_take_too_much() -> None:
    data = compressed(batch(0, [Written(headers=[("", b"")] * (3 * MIB))]), ZSTD)
    (found,) = decode(data, must_live=True)
    with pytest.raises(Exception, match="maxBatchBytes"):
        _ = found.headers


async def test_a_bomb_between_good_records_ends_by_its_policy_in_a_worker(tmp_path: Path) -> None:
    handler = """
    def handler(context, event):
        write(f"{event.offset}")
    """
    bomb = hostile_bytes.bomb(ZSTD, 70 * MIB)
    policy = DeliveryPolicy(failure=FailurePolicy(2, 0.01, 0.01, then="skip"))
    async with bench(tmp_path, handler, policy=policy) as b:
        (partition,) = b.assign(("t", 0))
        b.feed(partition, ChunkSlice(Chunk(0, 1, bomb, decode)))
        b.feed(partition, undecoded(1, 3))
        await b.settled(partition, 4)
        assert b.lines() == ["1", "2", "3"]


async def test_a_bomb_halts_its_partition_and_the_line_names_the_setting(tmp_path: Path) -> None:
    bomb = hostile_bytes.bomb(LZ4, 70 * MIB)
    async with bench(tmp_path, "def handler(context, event): pass") as b:
        (partition,) = b.assign(("t", 0))
        b.feed(partition, ChunkSlice(Chunk(0, 1, bomb, decode)))
        await until(lambda: is_stuck(partition))
        assert "after 3 attempts" in problem(partition)
        assert "maxBatchBytes (67108864)" in problem(partition)

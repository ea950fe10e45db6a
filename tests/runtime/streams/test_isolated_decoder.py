"""Undecoded records that become dead letters: looked into by a process that may die of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from chunks import Written, batch, compressed, sealed, undecoded
from processes import is_running
from worker_bench import until

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.partitions.chunk import Chunk, ChunkSlice
from headrace.runtime.streams import isolated_decoder
from headrace.runtime.streams.isolated_decoder import IsolatedDecoder
from headrace.runtime.wire.undecoded import UndecodableError
from headrace.triggers.kafka.format.decoder import decode

KAFKAS = "headrace.triggers.kafka.format.decoder:decode"
DEADLY = """
import os, signal, time
from headrace.triggers.kafka.format import decoder as kafkas

def decode(data, skip, max_batch_bytes, must_live):
    records = kafkas.decode(data, skip)
    found = records.read(1)
    if found[0].value == b"0":
        os.kill(os.getpid(), signal.SIGKILL)
    if found[0].value == b"1":
        time.sleep(600)
    return kafkas.decode(data, skip)
"""


@asynccontextmanager
async def an_opener(decoder: str = KAFKAS) -> AsyncIterator[IsolatedDecoder]:
    opened = IsolatedDecoder(DeliveryPolicy(decoder=decoder, decoder_options={"max_batch_bytes": 1 << 20}))
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def deadly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "deadly.py").write_text(DEADLY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "deadly:decode"


async def test_it_says_what_the_record_holds() -> None:
    chunk = undecoded(7, 3, headers=[("a", b"1"), ("a", None)])
    async with an_opener() as it:
        for record in chunk:
            found = await it.decode(record)
            for name in ("offset", "timestamp", "timestamp_type", "key", "value"):
                assert getattr(found, name) == getattr(record, name)
            assert list(found.headers) == list(record.headers)


async def test_it_says_why_a_record_cannot_be_decoded() -> None:
    damaged = bytearray(compressed(batch(12, [Written(), Written()]), codec=2))
    damaged[61:] = b"\xff" * len(damaged[61:])
    (record, _) = ChunkSlice(Chunk(12, 2, sealed(damaged), decode))
    async with an_opener() as it:
        found = await it.decode(record)
        with pytest.raises(UndecodableError, match="can't be decoded"):
            _ = found.value


async def test_what_kills_the_process_is_undecodable_and_the_next_record_is_opened(deadly: str) -> None:
    kills, _, fine = undecoded(0, 3)
    async with an_opener(deadly) as it:
        for _ in range(2):
            found = await it.decode(kills)
            with pytest.raises(UndecodableError, match="ends the process that looks into it"):
                _ = found.value
            assert (await it.decode(fine)).value == b"2"


async def test_what_takes_for_ever_is_undecodable(deadly: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated_decoder, "TIMEOUT_SECONDS", 1)
    _, stays, fine = undecoded(0, 3)
    async with an_opener(deadly) as it:
        found = await it.decode(stays)
        with pytest.raises(UndecodableError, match="ends the process that looks into it"):
            _ = found.value
        assert (await it.decode(fine)).value == b"2"


async def test_a_stop_ends_it_amid_a_record_and_those_that_wait(deadly: str) -> None:
    _, stays, fine = undecoded(0, 3)
    async with an_opener(deadly) as it:
        opening = [asyncio.create_task(it.decode(record)) for record in (stays, stays, fine)]
        await until(lambda: it.pid is not None)
        pid = it.pid
        it.close()
        for each in opening:
            with pytest.raises(OSError, match="the function stops"):
                await each
        assert pid is not None
        assert not is_running(pid)
        assert it.pid is None
        assert (await it.decode(fine)).value == b"2"


async def test_who_waits_no_more_leaves_nothing_running(deadly: str) -> None:
    _, stays, fine = undecoded(0, 3)
    async with an_opener(deadly) as it:
        opening = asyncio.create_task(it.decode(stays))
        await until(lambda: it.pid is not None)
        pid = it.pid
        opening.cancel()
        await asyncio.wait([opening])
        assert pid is not None
        assert not is_running(pid)
        assert (await it.decode(fine)).value == b"2"


async def test_what_is_too_large_to_be_read_here_is_not_said() -> None:
    headers = [("", b"")] * 4_000_000
    (record,) = undecoded(0, 1, headers)
    async with an_opener() as it:
        with pytest.raises(UndecodableError, match="maxBatchBytes"):
            _ = (await it.decode(record)).value

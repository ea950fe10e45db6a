"""What a v3io server has acknowledged is there, whatever ended it; the rest is there whole, or not at all."""

import asyncio
import base64
import itertools
import os
import resource
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from v3io_calls import Calls, calls

from headrace.runtime.embedded.v3io.server import EmbeddedV3io

_KILLS = 5
_WRITERS = 6
_BETWEEN_KILLS = 25
"""Calls of each writer that are acknowledged before the next kill."""
_TOGETHER = 3
"""Records of one call: all of them are there, or none."""


class Writer:
    """Puts numbered records into its own shard, and the last number into an attribute of a shared item."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.acknowledged: dict[int, int] = {}
        self.attribute = 0
        self._values = itertools.count(1)

    async def write(self, client: Calls) -> None:
        """Until cancelled. A call that is cut off may have been done: its value isn't used again."""
        while True:
            try:
                await self._write(client, next(self._values))
            except aiohttp.ClientError:
                await asyncio.sleep(0.01)  # the server is being started again

    async def _write(self, client: Calls, value: int) -> None:
        data = str(value).encode()
        sequences = await client.put("bigdata/s", *[data] * _TOGETHER, shard=self.number)
        self.acknowledged |= dict.fromkeys(sequences, value)
        item = {f"w{self.number}": {"N": str(value)}}
        assert await client.put_item("bigdata/s/g-state.json", item) == 200
        self.attribute = value


async def records_of(client: Calls, shard: str, location: str) -> dict[int, int]:
    """Values by sequence number."""
    body = {"Location": location, "Limit": 10_000}
    content = (await client.call("GetRecords", shard, body))[1]
    found = {}
    for record in content["Records"]:
        found[record["SequenceNumber"]] = int(base64.b64decode(record["Data"]))
    return found


async def acked(writers: list[Writer], more: int) -> None:
    """Wait until each of them has so many more records acknowledged."""
    wanted = [len(writer.acknowledged) + more for writer in writers]
    async with asyncio.timeout(60):
        while any(len(writer.acknowledged) < least for writer, least in zip(writers, wanted, strict=True)):
            await asyncio.sleep(0.005)


async def test_kills_under_load_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    writers = [Writer(number) for number in range(_WRITERS)]
    async with EmbeddedV3io(tmp_path) as server, calls(server.url) as client:
        await server.create_streams({"bigdata/s": _WRITERS})
        writing = [asyncio.ensure_future(writer.write(client)) for writer in writers]
        await acked(writers, _TOGETHER)
        beginnings = [await client.seek(f"bigdata/s/{writer.number}") for writer in writers]
        for _ in range(_KILLS):
            await acked(writers, _BETWEEN_KILLS * _TOGETHER)
            await server.restart(kill=True)
        await acked(writers, _TOGETHER)
        for task in writing:
            task.cancel()
        await asyncio.gather(*writing, return_exceptions=True)

        item = await client.item("bigdata/s/g-state.json")
        for writer, beginning in zip(writers, beginnings, strict=True):
            shard = f"bigdata/s/{writer.number}"
            assert beginning == await client.seek(shard)
            found = await records_of(client, shard, beginning)
            assert list(found) == list(range(1, len(found) + 1))
            assert found.items() >= writer.acknowledged.items()
            assert set(Counter(found.values()).values()) == {_TOGETHER}
            assert int(item[f"w{writer.number}"]) >= writer.attribute > _KILLS * _BETWEEN_KILLS
            assert (await client.item(shard, "__last_sequence_num"))["__last_sequence_num"] == str(len(found))


@pytest.mark.full
async def test_a_location_stays_valid_over_a_kill() -> None:
    async with EmbeddedV3io() as server, calls(server.url) as client:
        await server.create_streams({"bigdata/s": 1})
        assert await client.put("bigdata/s", b"1", b"2", b"3") == [1, 2, 3]
        _, location = await client.get("bigdata/s/0", await client.seek("bigdata/s/0"), limit=2)
        await server.restart(kill=True)
        assert await client.put("bigdata/s", b"4") == [4]
        assert (await client.get("bigdata/s/0", location))[0] == [b"3", b"4"]


@pytest.mark.full_but("garbage")
@pytest.mark.parametrize("torn", ["cut", "garbage"])
async def test_what_a_crash_has_half_written_is_dropped(tmp_path: Path, torn: str) -> None:
    async with EmbeddedV3io(tmp_path) as server, calls(server.url) as client:
        await client.create("bigdata/s")
        await client.put("bigdata/s", b"1")
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        await server.wait()
        log = tmp_path / "v3io.sqlite3-wal"
        whole = log.read_bytes()
        await server.restart()
        await client.put("bigdata/s", b"2")
        os.kill(server.pid or 0, signal.SIGKILL)
        await server.wait()
        # The log as it was, and behind it a write that came halfway.
        later = log.read_bytes()
        log.write_bytes(whole + (later[: len(later) // 2] if torn == "cut" else os.urandom(5000)))
        await server.restart()
        assert (await client.get("bigdata/s/0", await client.seek("bigdata/s/0")))[0][:1] == [b"1"]
        sequences = await client.put("bigdata/s", b"3")
        last = (await client.item("bigdata/s/0", "__last_sequence_num"))["__last_sequence_num"]
        assert sequences == [int(last)]


async def test_a_full_disk_refuses_what_it_cannot_keep_and_loses_nothing(tmp_path: Path) -> None:
    async with EmbeddedV3io(tmp_path) as server, calls(server.url) as client:
        await client.create("bigdata/s")
        assert server.pid is not None
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (2 << 20, hard))
        acknowledged, content = 0, dict[str, Any]()
        body = {"Records": [{"Data": "A" * 65_536}]}
        while not content:
            status, answer, _ = await client.call("PutRecords", "bigdata/s/", body)
            acknowledged += status == 200
            content = answer if status != 200 else {}
        assert status == 500
        assert content["ErrorCode"] == -5
        assert "\n" not in content["ErrorMessage"]
        assert acknowledged > 10
        assert await client.put_item("bigdata/item", {"a": {"S": "x" * 60_000}}) == 500
        shard = "bigdata/s/0"
        assert len((await client.get(shard, await client.seek(shard)))[0]) == acknowledged

        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert await client.put("bigdata/s", b"") == [acknowledged + 1]
        await server.restart(kill=True)
        assert len((await client.get(shard, await client.seek(shard)))[0]) == acknowledged + 1
        assert (await client.call("GetItem", "bigdata/item"))[0] == 404


@pytest.mark.full
async def test_increments_under_the_condition_of_the_time_lose_no_update() -> None:
    async with EmbeddedV3io() as server, calls(server.url) as client:
        path, names = "bigdata/counter", "__mtime_secs,__mtime_nsecs,count"
        assert await client.put_item(path, {"count": {"N": "0"}}, "not(exists(count))") == 200

        async def increment(times: int) -> None:
            while times:
                item = await client.item(path, names)
                seconds, rest = item["__mtime_secs"], item["__mtime_nsecs"]
                condition = f"(__mtime_nsecs == {rest}) AND (__mtime_secs == {seconds})"
                count = {"N": str(int(item["count"]) + 1)}
                times -= await client.put_item(path, {"count": count}, condition) == 200

        await asyncio.gather(*(increment(200) for _ in range(8)))
        assert (await client.item(path))["count"] == "1600"

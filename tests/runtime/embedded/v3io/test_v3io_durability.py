"""What a v3io server has acknowledged is there after a kill -9 under load, and nothing else has changed."""

import asyncio
import itertools

import aiohttp
from v3io_calls import Calls, calls

from headrace.runtime.embedded.v3io.server import EmbeddedV3io

_KILLS = 5
_WRITERS = 6
_BETWEEN_KILLS = 60
"""Acknowledged calls of each writer."""


class Writer:
    """Puts numbered records into its own shard, and each number into an attribute of a shared item."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.acknowledged: list[int] = []
        self.attribute = 0
        self._values = itertools.count(1)

    async def write(self, client: Calls, count: int) -> None:
        """So many calls that are acknowledged; those that the kill cut off don't count."""
        while count:
            value = next(self._values)
            try:
                await client.put("bigdata/s", str(value).encode(), shard=self.number)
                self.acknowledged.append(value)
                status = await client.put_item(
                    "bigdata/s/g-state.json", {f"w{self.number}": {"N": str(value)}}
                )
                assert status == 200
                self.attribute = value
                count -= 1
            except aiohttp.ClientError:
                await asyncio.sleep(0.02)  # it is being started again


async def test_kills_under_load_lose_nothing_that_was_acknowledged() -> None:
    writers = [Writer(number) for number in range(_WRITERS)]
    async with EmbeddedV3io() as server, calls(server.url) as client:
        await server.create_streams({"bigdata/s": _WRITERS})
        for _ in range(_KILLS):
            halfway = asyncio.gather(*(writer.write(client, _BETWEEN_KILLS // 2) for writer in writers))
            await halfway
            rest = asyncio.gather(*(writer.write(client, _BETWEEN_KILLS // 2) for writer in writers))
            await asyncio.sleep(0)
            await server.restart(kill=True)
            await rest
        item = await client.item("bigdata/s/g-state.json")
        for writer in writers:
            shard = f"bigdata/s/{writer.number}"
            records, _ = await client.get(shard, await client.seek(shard))
            values = [int(record) for record in records]
            assert values == sorted(set(values))
            assert set(writer.acknowledged) <= set(values)
            assert int(item[f"w{writer.number}"]) >= writer.attribute


async def test_a_location_stays_valid_over_a_kill() -> None:
    async with EmbeddedV3io() as server, calls(server.url) as client:
        await server.create_streams({"bigdata/s": 1})
        assert await client.put("bigdata/s", b"1", b"2", b"3") == [1, 2, 3]
        _, location = await client.get("bigdata/s/0", await client.seek("bigdata/s/0"), limit=2)
        await server.restart(kill=True)
        assert await client.put("bigdata/s", b"4") == [4]
        assert (await client.get("bigdata/s/0", location))[0] == [b"3", b"4"]


async def test_increments_under_the_condition_of_the_time_lose_no_update() -> None:
    async with EmbeddedV3io() as server, calls(server.url) as client:
        path, names = "bigdata/counter", "__mtime_secs,__mtime_nsecs,count"
        assert await client.put_item(path, {"count": {"N": "0"}}, "not(exists(count))") == 200

        async def increment(times: int) -> None:
            while times:
                item = await client.item(path, names)
                condition = (
                    f"(__mtime_nsecs == {item['__mtime_nsecs']}) AND (__mtime_secs == {item['__mtime_secs']})"
                )
                count = {"N": str(int(item["count"]) + 1)}
                times -= await client.put_item(path, {"count": count}, condition) == 200

        await asyncio.gather(*(increment(200) for _ in range(8)))
        assert (await client.item(path))["count"] == "1600"

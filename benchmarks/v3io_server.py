"""`make bench-v3io-server`: requests a second to the embedded v3io server, and the time of conditional puts.

One process with 32 clients on the same machine, each with one request under way: 64 of 100 turns read records
or a commit, 36 read an item and put it under the condition of its time, half of them the one that all share.
BENCH_SECONDS=N: longer. BENCH_ROUNDS=N: more often.
"""

import asyncio
import os
import random
import statistics
import sys
import time
from pathlib import Path

import aiohttp

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from v3io_calls import Calls, calls

from headrace.runtime.embedded.v3io.server import EmbeddedV3io

SECONDS = float(os.environ.get("BENCH_SECONDS", "5"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
CLIENTS = 32
SHARDS = 64
READS = 0.64
WANTED_RATE = 2500
WANTED_MS = 10.0
_COMMIT = "__g_committed_sequence_number"
_STATE = "x" * 3000
"""As long as the state of a group with 32 members is."""


class Client:
    """One of them: its own shards and its own item."""

    def __init__(self, number: int, calls: Calls) -> None:
        self._calls = calls
        self._random = random.Random(number)
        self._shards = [f"bigdata/s/{shard}" for shard in range(number, SHARDS, CLIENTS)]
        self._own = f"bigdata/s/m{number}-state.json"
        self._locations: dict[str, str] = {}
        self.requests = self.conflicts = 0
        self.put_ms: list[float] = []

    async def prepare(self) -> None:
        """A few records, of which the last are read again and again."""
        for shard in self._shards:
            await self._calls.put("bigdata/s", *[b"x" * 100] * 5, shard=int(shard.rpartition("/")[2]))
            await self._calls.put_item(shard, {_COMMIT: {"N": "1"}}, "__obj_type == 3")
            self._locations[shard] = await self._calls.seek(shard, "SEQUENCE", StartingSequenceNumber=4)
        await self._calls.put_item(self._own, {"state": {"S": _STATE}})

    async def run(self, until: float) -> None:
        """Turns, as they come."""
        while time.perf_counter() < until:
            if self._random.random() < READS:
                await self._read(self._random.choice(self._shards))
            else:
                await self._replace(self._random.choice([self._own, "bigdata/s/g-state.json"]))

    async def _read(self, shard: str) -> None:
        if self._random.random() < 0.5:
            await self._calls.get(shard, self._locations[shard], limit=64)
        else:
            await self._calls.item(shard, _COMMIT)
        self.requests += 1

    async def _replace(self, path: str) -> None:
        item = await self._calls.item(path, "__mtime_nsecs,__mtime_secs,state")
        seconds, rest = item["__mtime_secs"], item["__mtime_nsecs"]
        condition = f"(__mtime_nsecs == {rest}) AND (__mtime_secs == {seconds})"
        began = time.perf_counter()
        status = await self._calls.put_item(path, {"state": {"S": _STATE}}, condition)
        self.put_ms.append((time.perf_counter() - began) * 1000)
        self.requests += 2
        self.conflicts += status != 200


async def measure() -> tuple[float, float]:
    """Requests a second, and the median of conditional puts in ms, beside what was wanted."""
    connector = aiohttp.TCPConnector(limit=CLIENTS)
    async with EmbeddedV3io() as server, calls(server.url, connector=connector) as shared:
        await server.create_streams({"bigdata/s": SHARDS})
        await shared.put_item("bigdata/s/g-state.json", {"state": {"S": _STATE}})
        clients = [Client(number, shared) for number in range(CLIENTS)]
        for client in clients:
            await client.prepare()
        began = time.perf_counter()
        await asyncio.gather(*(client.run(began + SECONDS) for client in clients))
        seconds = time.perf_counter() - began
    rate = sum(client.requests for client in clients) / seconds
    return rate, _shown(rate, clients)


def _shown(rate: float, clients: list[Client]) -> float:
    put_ms = sorted(ms for client in clients for ms in client.put_ms)
    median, p99 = statistics.median(put_ms), put_ms[int(len(put_ms) * 0.99)]
    conflicts = sum(client.conflicts for client in clients) / len(put_ms)
    print(
        f"{rate:8,.0f} requests/s (target {WANTED_RATE:,})   conditional puts: median {median:.1f} ms "
        f"(target {WANTED_MS:.0f}), p99 {p99:.1f} ms, {conflicts:.0%} conflicts",
        flush=True,
    )
    return median


def main() -> int:
    """1 where no round met both targets."""
    rounds = [asyncio.run(measure()) for _ in range(ROUNDS)]
    return 0 if any(rate >= WANTED_RATE and ms <= WANTED_MS for rate, ms in rounds) else 1


if __name__ == "__main__":
    sys.exit(main())

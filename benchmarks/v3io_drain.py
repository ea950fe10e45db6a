"""`make bench-v3io-drain`: records a second from one shard through a handler, with default settings.

BENCH_RECORDS=N: more. BENCH_ROUNDS=N: more often.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from replica import replica, wait_until
from shard_scene import ShardScene

from headrace.runtime.embedded.v3io.server import EmbeddedV3io

RECORDS = int(os.environ.get("BENCH_RECORDS", "100000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
TARGET = 5000
# Of the whole way, from the first handler to the last one.
HANDLER = f"""
    import time
    def handler(context, event):
        if event.offset == 1:
            write(time.monotonic(), "times")
        if event.offset == {RECORDS}:
            write(time.monotonic(), "times")
"""


def main() -> int:
    """1 where a round missed the target."""
    rates = []
    server = EmbeddedV3io()
    asyncio.run(server.start())
    try:
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as folder:
                rates.append(measure(server.url, Path(folder)))
            print(f"{rates[-1]:8,.0f} records/s from one shard (target {TARGET:,})", flush=True)
    finally:
        asyncio.run(server.stop())
    return 0 if min(rates) >= TARGET else 1


def measure(url: str, folder: Path) -> float:
    """Records of 100 bytes, that are there before."""
    scene = ShardScene(url, folder)
    asyncio.run(scene.create())
    scene.write_with_defaults(HANDLER)
    scene.streams.put(scene.stream, [b"x" * 100] * RECORDS)
    with replica(folder) as running:
        wait_until(lambda: len(times(folder)) == 2, about=running)
    first, last = times(folder)
    return RECORDS / (last - first)


def times(folder: Path) -> list[float]:
    """When the first and the last handler began."""
    path = folder / "times"
    return [float(line) for line in path.read_text().split()] if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())

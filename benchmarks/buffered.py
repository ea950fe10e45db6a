"""`make bench-memory`: what a processor holds of a backlog that workers are slow with, and its bound.

By partitions, undecoded and decoded, in MiB: maxBufferedBytes, what the status says is held, and by how much
the process grew over one with an empty topic. OVER: the status by more than a batch, the process by more than
a third, which its allocator doesn't give back.
"""

import asyncio
import json
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import rig
from counter import total
from rig import Load, fill, headrace, stop

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.ports import HOST, free_port
from headrace.runtime.workers.watchdog import resident_bytes

MIB = 1 << 20
CASES = ((12, 64), (150, 16), (150, 64), (1000, 64))  # partitions, maxBufferedBytes in MiB
BACKLOG_BYTES = 256 * MIB
RECORD_BYTES = 4 << 10
BATCH_BYTES = 1 << 18  # as the rig fills topics, at most
SECONDS = 12.0
ALLOCATOR = 4 / 3
SLOW = """
import time

def handler(context, event):
    add(1)
    time.sleep(0.5)
"""
WAYS: dict[str, dict[str, object]] = {"undecoded": {}, "decoded": {"fetchMax": 1 << 30}}


def watch(load: Load, bound: int, way: str, seconds: float) -> tuple[int, int]:
    """At most: what the status said is held, and what the process takes. From its first record on, if any."""
    start = headrace(2, SLOW, maxBufferedBytes=bound, **WAYS[way])
    said = taken = 0
    with tempfile.TemporaryDirectory() as name:
        process = start(load, Path(name))
        try:
            while load.records and not total(Path(name)):
                time.sleep(0.05)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                taken = max(taken, resident_bytes(process.pid))
                said = max(said, _said())
                time.sleep(0.2)
        finally:
            stop(process)
    return said, taken


def _said() -> int:
    """0 where nobody answers yet."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{rig.ADMIN_PORT}/api/status", timeout=60) as answer:
            status = json.load(answer)
    except urllib.error.URLError:
        return 0
    return sum(int(trigger["bufferedBytes"]) for each in status["replicas"] for trigger in each["triggers"])


def mark(held: int, bound: float) -> str:
    """In MiB."""
    return f"{held / MIB:9.1f}{' OVER' if held > bound else '     '}"


async def main() -> int:
    """1 where something is over its bound."""
    worst = 0
    print(f"{'partitions':>10} {'':10}{'bound':>9}{'status':>9}     {'process':>9}", flush=True)
    async with EmbeddedKafka() as kafka:
        for partitions in sorted({case[0] for case in CASES}):
            await kafka.create_topics({f"empty-{partitions}": partitions, f"full-{partitions}": partitions})
            count = BACKLOG_BYTES // RECORD_BYTES
            load = Load(kafka.bootstrap, f"full-{partitions}", count, RECORD_BYTES, partitions)
            empty = Load(kafka.bootstrap, f"empty-{partitions}", 0, RECORD_BYTES, partitions)
            await fill(load)
            for bound in [mib * MIB for number, mib in CASES if number == partitions]:
                for way in WAYS:
                    _, idle = await asyncio.to_thread(watch, empty, bound, way, 4.0)
                    said, taken = await asyncio.to_thread(watch, load, bound, way, SECONDS)
                    shown = f"{mark(said, bound + BATCH_BYTES)}{mark(taken - idle, bound * ALLOCATOR)}"
                    print(f"{partitions:10} {way:10}{bound / MIB:9.0f}{shown}", flush=True)
                    worst |= "OVER" in shown
    return worst


if __name__ == "__main__":
    rig.ADMIN_PORT = str(free_port())
    sys.exit(asyncio.run(main()))

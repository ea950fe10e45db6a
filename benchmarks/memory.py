"""What a processor and its workers hold at full rate, over minutes: it must not grow.

usage: memory.py [SECONDS [BATCH_SIZE]]     600 s by default, record by record. A producer keeps ahead; the
broker soon forgets.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from counter import total
from rig import COUNTS, COUNTS_BATCHES, PARTITIONS, Load, headrace, stop

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.workers.watchdog import resident_bytes

TOPIC = "memory"
AHEAD = 1_000_000
PARTS = 8
FORGET = {"retention.bytes": str(64 << 20), "segment.bytes": str(16 << 20), "file.delete.delay.ms": "1000"}


async def produce_forever(bootstrap: str, folder: Path) -> None:
    """The same batches again and again, as long as not too much waits to be handled."""
    value, sent = b"x" * 100, 0
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=1 << 17) as producer:
        while True:
            while sent - total(folder) > AHEAD:  # noqa: ASYNC110  # another process counts
                await asyncio.sleep(0.01)
            for partition in range(PARTITIONS):
                batch = producer.create_batch()
                while batch.append(key=None, value=value, timestamp=None):
                    sent += 1
                await producer.send_batch(batch, TOPIC, partition=partition)


def children(pid: int) -> dict[str, int]:
    """Its processes, by what they are."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        module = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[3].decode()
        found[f"{module.rpartition('.')[2]} {len(found)}"] = int(child)
    return found


async def sample(bootstrap: str, folder: Path, seconds: float, batch_size: int) -> None:
    """Print what was held, over time."""
    handler = COUNTS_BATCHES if batch_size else COUNTS
    process = headrace(2, handler, batch_size=batch_size)(Load(bootstrap, TOPIC, 0, 100), folder)
    held: dict[str, list[float]] = {}
    try:
        while not total(folder):  # noqa: ASYNC110  # another process counts
            await asyncio.sleep(0.1)
        began, first = time.monotonic(), total(folder)
        while time.monotonic() < began + seconds:
            await asyncio.sleep(1)
            pids = {"processor": process.pid}
            pids |= children(process.pid)
            for who, pid in pids.items():
                held.setdefault(who, []).append(resident_bytes(pid) / (1 << 20))
        rate = (total(folder) - first) / (time.monotonic() - began)
    finally:
        await asyncio.to_thread(stop, process)
    print(f"{rate:,.0f} events/s for {seconds:.0f} s; MiB: medians of {PARTS} parts of that, most")
    for who, found in held.items():
        edges = [len(found) * part // PARTS for part in range(PARTS + 1)]
        medians = [statistics.median(found[low:high]) for low, high in pairwise(edges) if low < high]
        print(f"{who:12}" + "".join(f"{it:8.1f}" for it in (*medians, max(found))))


async def main(seconds: float, batch_size: int) -> None:
    """One embedded broker, one producer, one replica."""
    async with EmbeddedKafka() as kafka:
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, topic_configs=FORGET)])
        await admin.close()
        with tempfile.TemporaryDirectory() as name:
            producing = asyncio.create_task(produce_forever(kafka.bootstrap, Path(name)))
            try:
                await sample(kafka.bootstrap, Path(name), seconds, batch_size)
            finally:
                producing.cancel()
                await asyncio.gather(producing, return_exceptions=True)


seconds, batch_size = (*sys.argv[1:], *("600", "0")[len(sys.argv) - 1 :])
asyncio.run(main(float(seconds), int(batch_size)))

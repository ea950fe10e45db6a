"""From a producer's send to the handler's start, milliseconds, at a steady rate."""

import asyncio
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path

from aiokafka import AIOKafkaProducer
from rig import PARTITIONS, Load, Start, stop

_SECONDS = 4.0
_WARM_UP_SECONDS = 1.0
_TIME = struct.Struct("<d")
# CLOCK_MONOTONIC is shared by the processes.
NOTES = """
import struct, time
out = open(os.path.join(os.environ["BENCH_COUNTERS"], f"{os.getpid()}.latencies"), "a", buffering=1)

def handler(context, event):
    sent, = struct.unpack("<d", event.body)
    out.write(f"{sent} {(time.monotonic() - sent) * 1000}\\n")
    add(1)
"""


async def latencies(start: Start, bootstrap: str, topic: str, rate: int) -> tuple[float, float]:
    """Their median and 99th percentile."""
    load = Load(bootstrap, topic, 0, _TIME.size)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = start(load, folder)
        try:
            async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
                begin = time.monotonic()
                while not any(sent > begin for sent, _ in _read(folder)):  # what is older comes first
                    await producer.send_and_wait(topic, _TIME.pack(time.monotonic()), partition=0)
                    await asyncio.sleep(0.1)
                begin = time.monotonic()
                await _produce(producer, topic, rate)
            await asyncio.sleep(0.3)
        finally:
            await asyncio.to_thread(stop, process)
        found = sorted(ms for sent, ms in _read(folder) if sent > begin + _WARM_UP_SECONDS)
    return statistics.median(found), found[int(len(found) * 0.99)]


async def _produce(producer: AIOKafkaProducer, topic: str, rate: int) -> None:
    begin = time.monotonic()
    for number in range(int(rate * _SECONDS)):
        wait = begin + number / rate - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        await producer.send(topic, _TIME.pack(time.monotonic()), partition=number % PARTITIONS)


def _read(folder: Path) -> list[tuple[float, float]]:
    lines = [line.split() for path in folder.glob("*.latencies") for line in path.read_text().splitlines()]
    return [(float(line[0]), float(line[1])) for line in lines if len(line) == 2]


async def _bare(bootstrap: str, topic: str, group: str, folder: Path) -> None:
    from aiokafka import AIOKafkaConsumer

    out = (folder / "bare.latencies").open("a", buffering=1)
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group) as consumer:
        async for record in consumer:
            (sent,) = _TIME.unpack(record.value)
            out.write(f"{sent} {(time.monotonic() - sent) * 1000}\n")


if __name__ == "__main__":
    asyncio.run(_bare(*sys.argv[1:4], Path(sys.argv[4])))

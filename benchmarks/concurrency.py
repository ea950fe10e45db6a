"""`make bench-concurrency`: more records at once than partitions, beside what that would be at best.

Keys in order on one worker, async handlers that overlap, computing handlers on several workers, slow records
among quick ones, and Pyrallel-Consumer on the same work. A line each; a target that is missed is marked.
"""

import asyncio
import os
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path

import peers
from aiokafka import AIOKafkaProducer
from counter import total
from rig import Load, Start, headrace, measure, script, stop

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.workers.watchdog import resident_bytes

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
PAIRS = 5
_RATE = 400
_SECONDS = 20.0
# In one process nothing is written for the check: it counts where the order of a key is broken.
CHECKED = """
import asyncio
(Path(os.environ["BENCH_COUNTERS"]) / "wrong").mkdir(exist_ok=True)
wrong = Counter(Path(os.environ["BENCH_COUNTERS"]) / "wrong").add
running, last = set(), {{}}

async def handler(context, event):
    if event.key in running or last.get(event.key, -1) >= event.offset:
        wrong(1)
    running.add(event.key)
    last[event.key] = event.offset
    await asyncio.sleep({seconds})
    running.discard(event.key)
    add(1)
"""
SLEEPS = """
import asyncio

async def handler(context, event):
    await asyncio.sleep({seconds})
    add(1)
"""
COMPUTES = """
import time

def handler(context, event):
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    add(1)
"""
# A tenth takes 2 s. Both clocks are the machine's.
SOME_ARE_SLOW = """
import asyncio, struct, time
out = open(os.path.join(os.environ["BENCH_COUNTERS"], f"{os.getpid()}.latencies"), "a", buffering=1)

async def handler(context, event):
    sent, is_slow = struct.unpack("<d?", event.body)
    out.write(f"{is_slow:d} {(time.monotonic() - sent) * 1000}\\n")
    await asyncio.sleep(2 if is_slow else 0.005)
    add(1)
"""


async def fill(load: Load, keys: int) -> None:
    """Keys in turn, uncompressed."""
    async with AIOKafkaProducer(bootstrap_servers=load.bootstrap, linger_ms=5) as producer:
        for first in range(0, load.records, 1000):
            value, sent = b"x" * load.size, []
            for n in range(first, min(load.records, first + 1000)):
                key, partition = b"%d" % (n % keys), n % load.partitions
                sent.append(await producer.send(load.topic, value, key, partition=partition))
            await asyncio.gather(*sent)


async def topic(kafka: EmbeddedKafka, name: str, records: int, *, partitions: int = 1) -> Load:
    """Full, of a thousand keys."""
    await kafka.create_topics({name: partitions})
    load = Load(kafka.bootstrap, name, records, 100, partitions)
    await fill(load, 1000)
    return load


def report(name: str, figure: float, unit: str, target: float, *, is_most: bool = False) -> bool:
    """A line; whether the target is met."""
    is_held = figure <= target if is_most else figure >= target
    bound = f"{'at most' if is_most else 'at least'} {target:g}: {'held' if is_held else 'BROKEN'}"
    print(f"{name:58} {figure:8.1f} {unit:12} {bound}", flush=True)
    return is_held


def rate(start: Start, load: Load, rounds: int = ROUNDS) -> float:
    """The median of some rounds, records per second."""
    return statistics.median(measure(start, load) for _ in range(rounds))


def checked_rate(start: Start, load: Load) -> tuple[float, int]:
    """And how often the order of a key was broken."""
    wrong: list[int] = []

    def look(folder: Path) -> None:
        wrong.append(total(folder / "wrong"))

    return statistics.median(measure(start, load, look) for _ in range(ROUNDS)), sum(wrong)


async def slow_among_quick(kafka: EmbeddedKafka) -> tuple[float, float]:
    """The median latency of the quick ones, ms, and the largest memory of the processor, MiB."""
    await kafka.create_topics({"mixed": 8})
    start = headrace(2, SOME_ARE_SLOW, maxConcurrency=100, ordering="none")
    load = Load(kafka.bootstrap, "mixed", 0, 9, 8)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = start(load, folder)
        try:
            async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
                while not total(folder):
                    await producer.send_and_wait("mixed", struct.pack("<d?", time.monotonic(), False))
                    await asyncio.sleep(0.1)
                begin, most = time.monotonic(), 0
                for number in range(int(_RATE * _SECONDS)):
                    wait = begin + number / _RATE - time.monotonic()
                    if wait > 0:
                        await asyncio.sleep(wait)
                    body = struct.pack("<d?", time.monotonic(), number % 10 == 0)
                    await producer.send("mixed", body, partition=number % 8)
                    if number % _RATE == 0:
                        most = max(most, resident_bytes(process.pid))
            await asyncio.sleep(3)
        finally:
            await asyncio.to_thread(stop, process)
        return statistics.median(quick_ms(folder)), most / (1 << 20)


def quick_ms(folder: Path) -> list[float]:
    """Of the records that aren't slow."""
    said = [path.read_text().splitlines() for path in folder.glob("*.latencies")]
    return [float(line.split()[1]) for lines in said for line in lines if line.startswith("0 ")]


def by_key(load: Load) -> list[bool]:
    """At best 5,000 a second: 100 at once of 20 ms."""
    start = headrace(1, CHECKED.format(seconds=0.02), ordering="key", maxConcurrency=100)
    found, wrong = checked_rate(start, load)
    return [
        report("1 partition, 1,000 keys, 20 ms, 100 at once", found, "records/s", 4500),
        report("  keys whose order was broken, or that overlapped", wrong, "records", 0, is_most=True),
    ]


def in_order(load: Load) -> list[bool]:
    """At best 200 a second without, 1,600 with."""
    held = []
    for most, target in ((1, 0), (8, 1400)):
        start = headrace(1, SLEEPS.format(seconds=0.005), maxConcurrency=most)
        name = f"8 partitions in order, 5 ms, {most} at once"
        held.append(report(name, rate(start, load), "records/s", target))
    return held


def computing(load: Load) -> list[bool]:
    """On two cores."""
    ratios = []
    for _ in range(PAIRS):
        four, one = (measure(headrace(workers, COMPUTES, ordering="key"), load) for workers in (4, 1))
        ratios.append(four / one)
    name = "4 workers, 1 partition, 50 ms of CPU, by key"
    return [report(name, statistics.median(ratios), "of 1 worker", 1.7)]


async def main() -> int:
    """0 where every target is met."""
    async with EmbeddedKafka() as kafka:
        keyed = await topic(kafka, "keyed", 100_000)
        held = await asyncio.to_thread(by_key, keyed)
        held += await asyncio.to_thread(in_order, await topic(kafka, "ordered", 60_000, partitions=8))
        held += await asyncio.to_thread(computing, await topic(kafka, "computing", 3_000))
        latency, memory = await slow_among_quick(kafka)
        held.append(report("a tenth takes 2 s: median latency of the rest", latency, "ms", 50, is_most=True))
        held.append(report("  memory of the processor", memory, "MiB", 200, is_most=True))
        held += await asyncio.to_thread(beside_pyrallel, keyed)
    return 0 if all(held) else 1


def beside_pyrallel(load: Load) -> list[bool]:
    """The same records and handlers, in turns."""
    try:
        python = peers.install("pyrallel_async")
    except RuntimeError as error:
        print(f"Pyrallel-Consumer is left out: {error}")
        return []
    held = []
    for seconds in (0.0, 0.005, 0.02):
        os.environ["BENCH_SECONDS"] = str(seconds)
        theirs = script(peers.program("pyrallel_async"), python)
        ours = headrace(1, SLEEPS.format(seconds=seconds), ordering="key", maxConcurrency=100)
        ratios = [measure(ours, load) / measure(theirs, load) for _ in range(ROUNDS)]
        name = f"beside Pyrallel-Consumer, {seconds * 1000:g} ms, 100 at once"
        held.append(report(name, statistics.median(ratios), "of theirs", 1))
    return held


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

"""`make bench-versus OTHER=CHECKOUT`: this checkout beside another one, in one run, case by case.

The two take turns on one broker, so that a machine that changes its speed changes it for both. Each pair of
rounds gives a ratio; the median of the ratios counts. OTHER has a .venv of its own (`make setup` there).
"""

import asyncio
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import latency
from bench import DECODED, LARGE_BYTES, RECORDS, topic_of
from rig import ACKS, COUNTS_ASYNC, COUNTS_BATCHES, SLEEPS, Load, Start, headrace, measure

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

PAIRS = int(os.environ.get("BENCH_PAIRS", "5"))
ONLY = os.environ.get("BENCH_ONLY", "")  # cases whose name has it
LIMIT = 0.97
MORE = {"maxInFlight": 2000}  # whatever the other one has by default

Make = Callable[[str], Start]
"""By the Python that runs it."""

SMALL: dict[str, Make] = {
    "2 workers": lambda python: headrace(2, python=python),
    "2 workers, maxInFlight": lambda python: headrace(2, python=python, **MORE),
    "1 worker, maxInFlight": lambda python: headrace(1, python=python, **MORE),
    "2 workers, decoded": lambda python: headrace(2, python=python, **DECODED, **MORE),
    "2 workers, read_committed": lambda python: headrace(
        2, python=python, isolationLevel="read_committed", **MORE
    ),
    "async handler": lambda python: headrace(2, COUNTS_ASYNC, python=python, **MORE),
    "awaited ack each": lambda python: headrace(2, ACKS, acks=True, python=python, **MORE),
    "static": lambda python: headrace(2, python=python, workerAllocationMode="static", **MORE),
    "batches of 500": lambda python: headrace(2, COUNTS_BATCHES, batch_size=500, python=python),
}
LARGE: dict[str, Make] = {"2 workers": SMALL["2 workers"]}
SLOW: dict[str, Make] = {"a handler of 20 ms": lambda python: headrace(2, SLEEPS, python=python)}


async def pairs(title: str, cases: dict[str, Make], load: Load, pythons: tuple[str, str]) -> list[str]:
    """Those that are slower here, by more than the limit."""
    slower = []
    for name, make in cases.items():
        if ONLY not in f"{title}, {name}":
            continue
        ratios = []
        for number in range(PAIRS):
            order = pythons if number % 2 else pythons[::-1]
            rates = {python: await asyncio.to_thread(measure, make(python), load) for python in order}
            ratios.append(rates[pythons[0]] / rates[pythons[1]])
        slower += report(f"{title}, {name}", ratios)
    return slower


async def latency_pairs(kafka: EmbeddedKafka, pythons: tuple[str, str]) -> list[str]:
    """The other way round: more is better here too."""
    await kafka.create_topics({"latency": 8})
    slower = []
    for rate in (200, 2000):
        if ONLY not in f"latency at {rate}/s":
            continue
        ratios = []
        for number in range(PAIRS):
            middles = {}
            for python in pythons if number % 2 else pythons[::-1]:
                start = headrace(2, latency.NOTES, python=python)
                middles[python], _ = await latency.latencies(start, kafka.bootstrap, "latency", rate)
            ratios.append(middles[pythons[1]] / middles[pythons[0]])
        slower += report(f"latency at {rate}/s, p50, inverse", ratios)
    return slower


def report(name: str, ratios: list[float]) -> list[str]:
    """A line; the name where the median is below the limit."""
    middle = statistics.median(ratios)
    is_slower = middle < LIMIT
    shown = " ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
    print(f"{name:40} {middle:.3f}   {shown}{'   SLOWER' if is_slower else ''}", flush=True)
    return [name] if is_slower else []


async def main(other: Path) -> int:
    """1 where a case is slower here."""
    pythons = (sys.executable, str(other / ".venv/bin/python"))
    print(f"{'this checkout, as a multiple of the other':40} median  all of {PAIRS}", flush=True)
    async with EmbeddedKafka() as kafka:
        slower = await pairs("100 B", SMALL, await topic_of(kafka, "small", RECORDS, 100), pythons)
        for size in (1 << 10, 10 << 10):
            load = await topic_of(kafka, f"size-{size}", LARGE_BYTES // size, size)
            slower += await pairs(f"{size >> 10} KiB", LARGE, load, pythons)
        slower += await pairs("slow", SLOW, await topic_of(kafka, "slow", 1000, 100), pythons)
        slower += await latency_pairs(kafka, pythons)
    print(f"slower: {', '.join(slower)}" if slower else "no case is slower by more than 3 %")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]).resolve())))

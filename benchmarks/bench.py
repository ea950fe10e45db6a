"""`make bench`: Headrace beside bare clients and beside its peers, in one run. Only ratios travel.

Rounds are interleaved, so that a machine that changes its speed changes it for all. Prints tables, and writes
benchmarks/results/*.json.
"""

import asyncio
import json
import os
import statistics
import time
from collections.abc import Mapping

import latency
import peers
import starts
from folders import BENCHMARKS
from rig import (
    ACKS,
    COUNTS_ASYNC,
    COUNTS_BATCHES,
    PARTITIONS,
    SLEEPS,
    Load,
    Start,
    fill,
    headrace,
    measure,
    script,
)

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

RECORDS = int(os.environ.get("BENCH_RECORDS", "4000000"))  # seconds for the fastest
IS_FULL = bool(os.environ.get("BENCH_FULL"))
WIDE = 1000  # partitions
LARGE_BYTES = 300_000_000  # of larger ones, in all
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
BARE = "bare aiokafka, getmany(500)"
DECODED = {"fetchMax": 1 << 20}  # the processor decodes
SLEEPERS = "two processes that only sleep"
SYNC = "headrace, 2 workers"

Table = dict[str, list[float]]


def main_systems() -> dict[str, Start]:
    """100 B, a trivial handler, and settings as they are."""
    return {
        BARE: script(BENCHMARKS / "bare.py"),
        "aiokafka, async for, a call per record": script(BENCHMARKS / "bare_each.py"),
        SYNC: headrace(2),
        "headrace, 2 workers, batches of 500": headrace(2, COUNTS_BATCHES, batch_size=500),
        "headrace, 1 worker": headrace(1),
        "headrace, 1 worker, decoded": headrace(1, **DECODED),
        "headrace, 2 workers, decoded": headrace(2, **DECODED),
        "headrace, 2 workers, async handler": headrace(2, COUNTS_ASYNC),
        "headrace, 2 workers, awaited ack each": headrace(2, ACKS, acks=True),
    }


def installed_peers() -> tuple[dict[str, Start], dict[str, str]]:
    """Those that could be installed, and why the others couldn't."""
    found: dict[str, Start] = {}
    missing: dict[str, str] = {}
    for name, module in peers.PEERS.items():
        try:
            found[name] = script(peers.program(module), peers.install(module))
        except RuntimeError as error:
            missing[name] = str(error)
    return found, missing


async def rounds(systems: Mapping[str, Start], load: Load) -> Table:
    """Events per second, by system; a system that fails has none."""
    rates: Table = {name: [] for name in systems}
    for number in range(ROUNDS):
        for name, start in systems.items():
            try:
                rates[name].append(await asyncio.to_thread(measure, start, load))
            except RuntimeError as error:
                print(f"round {number + 1}: {name}: {error}", flush=True)
            else:
                print(f"round {number + 1}: {name}: {rates[name][-1]:,.0f} /s", flush=True)
    return {name: found for name, found in rates.items() if found}


def by_default() -> dict[str, Start]:
    """As a function is that says nothing of its speed."""
    return {BARE: script(BENCHMARKS / "bare.py"), SYNC: headrace(2)}


def more_systems() -> dict[str, Start]:
    """Other modes."""
    return {
        BARE: script(BENCHMARKS / "bare.py"),
        "headrace, 2 workers, static": headrace(2, workerAllocationMode="static"),
        "headrace, 2 workers, maxInFlight 256": headrace(2, maxInFlight=256),
    }


async def topic_of(
    kafka: EmbeddedKafka, topic: str, records: int, size: int, partitions: int = PARTITIONS
) -> Load:
    """Filled: the first `partitions`, if it has more."""
    await kafka.create_topics({topic: max(partitions, PARTITIONS)})
    load = Load(kafka.bootstrap, topic, records, size, partitions)
    print(f"producing {records:,} records of {size} B", flush=True)
    if records:
        await fill(load)
    return load


async def latency_rounds(kafka: EmbeddedKafka) -> Table:
    """p50 and p99, milliseconds, by system and rate."""
    await kafka.create_topics({"latency": PARTITIONS})
    systems = {"bare aiokafka": script(BENCHMARKS / "latency.py"), "headrace": headrace(2, latency.NOTES)}
    found: Table = {}
    for _ in range(ROUNDS):
        for rate in (200, 2000):
            for name, start in systems.items():
                middle, high = await latency.latencies(start, kafka.bootstrap, "latency", rate)
                found.setdefault(f"{name}, {rate}/s, p50", []).append(middle)
                found.setdefault(f"{name}, {rate}/s, p99", []).append(high)
    return found


def show(title: str, table: Table, reference: float | None, digits: int = 0) -> None:
    """Min, median, max, and the median's ratio to `reference`."""
    print(f"\n{title:42}{'min':>12}{'median':>12}{'max':>12}" + ("   ratio" if reference else ""))
    for name, found in table.items():
        middle = statistics.median(found)
        ratio = f"{middle / reference:8.2f}" if reference else ""
        cells = "".join(f"{value:12,.{digits}f}" for value in (min(found), middle, max(found)))
        print(f"{name:42}{cells}{ratio}")


async def main() -> None:
    """All tables."""
    began = time.monotonic()
    found_peers, missing = installed_peers()
    tables: dict[str, Table] = {"processor time, s": starts.command_table()}
    async with EmbeddedKafka() as kafka:
        load = await topic_of(kafka, "small", RECORDS, 100)
        tables["100 B"] = await rounds(main_systems() | found_peers, load)
        if IS_FULL:
            tables["100 B, other modes"] = await rounds(more_systems(), load)
            load = await topic_of(kafka, "wide", RECORDS, 100, WIDE)
            tables[f"100 B, {WIDE:,} partitions"] = await rounds(by_default(), load)
        for size, name in ((1 << 10, "1 KiB"), (10 << 10, "10 KiB")):
            load = await topic_of(kafka, f"size-{size}", LARGE_BYTES // size, size)
            tables[name] = await rounds(by_default(), load)
        load = await topic_of(kafka, "lopsided", RECORDS // 4, 100, partitions=1)
        tables["100 B, all in one of 8 partitions"] = await rounds(by_default(), load)
        load = await topic_of(kafka, "slow", 1000, 100)
        slow = {SLEEPERS: script(BENCHMARKS / "bare_sleeps.py"), SYNC: headrace(2, SLEEPS)}
        tables["a handler of 20 ms; ideal: 100/s"] = await rounds(slow, load)
        load = await topic_of(kafka, "starts", 100_000, 100)
        tables["starts, s"] = await starts.start_table(load)
        tables["latency, ms"] = await latency_rounds(kafka)
    for title, table in tables.items():
        beside = next((table[name] for name in (BARE, SLEEPERS) if name in table), None)
        middle = statistics.median(beside) if beside else None
        show(title, table, middle, digits=0 if BARE in table else 2)
    for name, why in missing.items():
        print(f"{name}: not measured, it can't be installed here: {why}")
    print(f"{time.monotonic() - began:.0f} s")
    save(tables, missing)


def save(tables: dict[str, Table], missing: dict[str, str]) -> None:
    """As JSON; plot.py draws it."""
    folder = BENCHMARKS / "results"
    folder.mkdir(exist_ok=True)
    path = folder / time.strftime("bench-%Y%m%d-%H%M%S.json", time.gmtime())
    path.write_text(json.dumps({"tables": tables, "missing": missing}, indent=1))
    print(path)


if __name__ == "__main__":
    asyncio.run(main())

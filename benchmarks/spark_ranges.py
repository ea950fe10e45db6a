"""`delivery: ranges` beside plain Spark jobs over the same ranges, on the same Spark server, in turn.

The plain jobs know their ranges beforehand and commit nothing: what they need is what Spark needs. They run
one after the other, and two at a time as the function's two workers do.
"""

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from aiokafka import AIOKafkaProducer

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.spark.server import SparkServer
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.worker.api.spark import WorkerSpark

RECORDS = int(os.environ.get("BENCH_RECORDS", "1000000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
SIZE, PARTITIONS, BATCH_SIZE, WORKERS = 100, 8, 250_000, 2
TOPIC = "bench"
AGGREGATE = ("count(*)", "sum(length(value))", "bit_xor(hash(value))")
HANDLER = f"""
import json, os, time
from headrace.functions.spark import ranges_to_dataframe

def init_context(context):
    context.spark.range(1).count()

def handler(context, ranges):
    row = ranges_to_dataframe(context, ranges).selectExpr(*{AGGREGATE!r}).first()
    with open("done", "a") as file:
        file.write(json.dumps([time.time(), *row]) + "\\n")
"""


async def fill(bootstrap: str) -> None:
    """RECORDS of SIZE bytes, each different, evenly."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=1 << 18) as producer:
        for partition in range(PARTITIONS):
            numbers = iter(range(partition, RECORDS, PARTITIONS))
            waiting = next(numbers, None)
            while waiting is not None:
                batch = producer.create_batch()
                while waiting is not None and batch.append(
                    key=None, value=str(waiting).encode().ljust(SIZE, b"."), timestamp=None
                ):
                    waiting = next(numbers, None)
                await producer.send_batch(batch, TOPIC, partition=partition)


def function(folder: Path, bootstrap: str, link: SparkLink | None) -> Path:
    """On disk."""
    attributes = {"topics": [TOPIC], "brokers": [bootstrap], "consumerGroup": str(uuid.uuid4())}
    trigger = {
        "kind": "kafka-cluster",
        "numWorkers": WORKERS,
        "batch": {"mode": "enable", "batchSize": BATCH_SIZE, "timeout": "100ms"},
        "attributes": {**attributes, "delivery": "ranges"},
    }
    spec: dict[str, Any] = {"handler": "bench_handler:handler", "triggers": {"records": trigger}}
    spec["spark"] = {"remote": link.url, "token": link.token} if link else {}
    path = folder / "function.yaml"
    path.write_text(yaml.safe_dump({"metadata": {"name": "bench"}, "spec": spec}))
    (folder / "bench_handler.py").write_text(HANDLER)
    return path


def ours(bootstrap: str, link: SparkLink) -> float:
    """Records per second, from the moment that the group gives the partitions to the last handler's end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        function(folder, bootstrap, link)
        command = [sys.executable, "-P", "-m", "headrace", "run", str(folder), "--admin-port", "0"]
        with (folder / "log").open("w") as log:
            run = subprocess.Popen([*command, "--log-format", "json"], cwd=folder, stdout=log, stderr=log)
        try:
            while sum(row[1] for row in rows(folder / "done")) < RECORDS:
                if run.poll() is not None:
                    raise SystemExit((folder / "log").read_text())
                time.sleep(0.01)
            lines = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait(30)
        done = rows(folder / "done")
    assert sum(row[1] for row in done) == RECORDS, "no record twice"
    times = [line["time"] for line in lines if "assigned: " in line["message"]]
    began = datetime.fromisoformat(min(times)).timestamp()
    return RECORDS / (max(row[0] for row in done) - began)


def rows(path: Path) -> list[list[float]]:
    """What the handlers have written so far."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("]")]


def plain(bootstrap: str, spark: Any, at_a_time: int) -> float:
    """Records per second of the same four ranges, as jobs of their own."""
    each, per_job = RECORDS // PARTITIONS, BATCH_SIZE * PARTITIONS // RECORDS

    def job(first: int) -> int:
        mine = range(first, first + per_job)
        found = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("assign", json.dumps({TOPIC: list(mine)}))
            .option("startingOffsets", json.dumps({TOPIC: {str(n): 0 for n in mine}}))
            .option("endingOffsets", json.dumps({TOPIC: {str(n): each for n in mine}}))
            .load()
        )
        return int(found.selectExpr(*AGGREGATE).first()[0])

    began = time.monotonic()
    with ThreadPoolExecutor(at_a_time) as pool:
        counts = list(pool.map(job, range(0, PARTITIONS, per_job)))
    assert sum(counts) == RECORDS
    return RECORDS / (time.monotonic() - began)


async def main() -> None:
    """Print a table; the last column is the ratio to the faster of the plain ones."""
    async with EmbeddedKafka() as kafka:
        await kafka.create_topics({TOPIC: PARTITIONS})
        print(f"producing {RECORDS} records of {SIZE} B onto {PARTITIONS} partitions", flush=True)
        await fill(kafka.bootstrap)
        with tempfile.TemporaryDirectory() as name:
            server = SparkServer([load_function(function(Path(name), kafka.bootstrap, None))])
        await server.start()
        try:
            await asyncio.to_thread(compare, kafka.bootstrap, server.link)
        finally:
            await server.stop()


def compare(bootstrap: str, link: SparkLink) -> None:
    """Rounds in turn; the first one warms Spark up and doesn't count."""
    spark = WorkerSpark(link.session_url, str(uuid.uuid4()), {}, __name__, lambda _: None).session
    systems: dict[str, Callable[[], float]] = {
        "plain Spark jobs, one by one": lambda: plain(bootstrap, spark, 1),
        "plain Spark jobs, two at a time": lambda: plain(bootstrap, spark, 2),
        "headrace, ranges, 2 workers": lambda: ours(bootstrap, link),
    }
    rates: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(ROUNDS + 1):
        for name, measure in systems.items():
            rate = measure()
            print(f"round {number or 'to warm up'}: {name}: {rate:,.0f} records/s", flush=True)
            if number:
                rates[name].append(rate)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    reference = max(middle for name, middle in medians.items() if name.startswith("plain"))
    print(f"\n{'':34}{'min':>12}{'median':>12}{'max':>12}   of plain")
    for name, found in rates.items():
        middle, ratio = medians[name], medians[name] / reference
        print(f"{name:34}{min(found):12,.0f}{middle:12,.0f}{max(found):12,.0f}   {ratio:.2f}")


if __name__ == "__main__":
    asyncio.run(main())

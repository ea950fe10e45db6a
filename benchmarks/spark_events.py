"""`make bench-spark`: records per second from a topic to Parquet through Spark, and what bounds it.

For each process the CPU time per million records, for each batch the wall time of its steps: what is bound
by the machine, and by what of it, stands beside the rate.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from rig import PARTITIONS, Load, fill

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

TOPIC, SIZE = "bench", 100
RECORDS = int(os.environ.get("BENCH_RECORDS", "1500000"))
BATCH = int(os.environ.get("BENCH_BATCH", "70000"))
WORKERS = 2
PATIENCE_SECONDS = 300
TICKS = os.sysconf("SC_CLK_TCK")
HANDLER = """
import json, os, time
from headrace.functions.spark import events_to_dataframe, write_parquet

def handler(context, events):
    spark, began = context.spark, time.monotonic()
    rows = events_to_dataframe(spark, events).select("topic", "partition", "offset", "value")
    sent = time.monotonic()
    write_parquet(rows, "rows", events)
    told = {"began": began, "arrow": sent - began, "write": time.monotonic() - sent, "count": len(events)}
    with open("batches", "a") as file:
        file.write(json.dumps(told) + "\\n")
"""


def write_function(folder: Path, bootstrap: str) -> None:
    """A batch function that writes every record."""
    attributes = {"topics": [TOPIC], "brokers": [bootstrap], "consumerGroup": "bench"}
    batch = {"mode": "enable", "batchSize": BATCH, "timeout": "1s"}
    trigger = {"kind": "kafka-cluster", "numWorkers": WORKERS, "batch": batch, "attributes": attributes}
    spec = {"handler": "bench_handler:handler", "spark": {}, "triggers": {"records": trigger}}
    (folder / "function.yaml").write_text(yaml.safe_dump({"metadata": {"name": "bench"}, "spec": spec}))
    (folder / "bench_handler.py").write_text(HANDLER)


def batches(folder: Path) -> list[dict[str, Any]]:
    """What handlers told, whole lines only."""
    path = folder / "batches"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def count(found: Iterable[dict[str, Any]]) -> int:
    """Records in these batches."""
    return sum(batch["count"] for batch in found)


def cpu_seconds(pid: int) -> float:
    """That a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def processes(processor: int, kafka: int) -> dict[int, str]:
    """Who has a part in it, by process id."""
    children = Path(f"/proc/{processor}/task/{processor}/children").read_text().split()
    names = {int(child): Path(f"/proc/{child}/comm").read_text().strip() for child in children}
    kinds = {child: "Spark" if name == "java" else "worker" for child, name in names.items()}
    return {processor: "processor", kafka: "Kafka", **kinds}


def until(folder: Path, records: int) -> float:
    """When so many are written."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while count(batches(folder)) < records:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {count(batches(folder))} of {records} records in {PATIENCE_SECONDS} s")
        time.sleep(0.02)
    return time.monotonic()


def measure(bootstrap: str, kafka: int, folder: Path) -> None:
    """Print the rate between 30 % and the end: Spark's first batches are slow, and the JVM compiles."""
    write_function(folder, bootstrap)
    command = [sys.executable, "-P", "-m", "headrace", "run", str(folder), "--admin-port", "0"]
    process = subprocess.Popen([*command, "--log-level", "warning"], cwd=folder)
    try:
        began = until(folder, RECORDS * 3 // 10)
        warm = len(batches(folder))
        shares = processes(process.pid, kafka)
        before = {pid: cpu_seconds(pid) for pid in shares}
        ended = until(folder, RECORDS)
        used = {pid: cpu_seconds(pid) - before[pid] for pid in shares}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    found = batches(folder)[warm:]
    seconds, written = ended - began, count(found)
    print(
        f"\n{written / seconds:,.0f} records/s ({written:,} of {SIZE} B in {len(found)} batches of {BATCH:,})"
    )
    for kind in dict.fromkeys(shares.values()):
        total = sum(used[pid] for pid, name in shares.items() if name == kind)
        print(
            f"{kind:12} {total / seconds:5.2f} cores, {total / written * 1e6:5.1f} CPU s per million records"
        )
    for step in ("arrow", "write"):
        spent = sum(batch[step] for batch in found)
        print(f"{step:12} {spent / seconds / WORKERS:5.0%} of the workers' time")
    rest = 1 - sum(batch["arrow"] + batch["write"] for batch in found) / seconds / WORKERS
    print(f"{'else':12} {rest:5.0%}: waiting for records, reading the socket, making events")


async def main() -> None:
    """One topic, read once."""
    async with EmbeddedKafka() as kafka:
        await kafka.create_topics({TOPIC: PARTITIONS})
        print(f"producing {RECORDS} records of {SIZE} B onto {PARTITIONS} partitions", flush=True)
        await fill(Load(kafka.bootstrap, TOPIC, RECORDS, SIZE))
        assert kafka.pid is not None
        with tempfile.TemporaryDirectory() as folder:
            await asyncio.to_thread(measure, kafka.bootstrap, kafka.pid, Path(folder))


if __name__ == "__main__":
    asyncio.run(main())

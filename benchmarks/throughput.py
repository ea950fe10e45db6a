"""`make bench`: events per second through Headrace, beside a bare aiokafka loop in the same run.

Rounds are interleaved, so that a machine that changes its speed changes it for all. Only ratios travel.
"""

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import yaml
from aiokafka import AIOKafkaProducer
from counter import total

from headrace.runtime.embedded_kafka import EmbeddedKafka

HERE = Path(__file__).parent
RECORDS = int(os.environ.get("BENCH_RECORDS", "1500000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SIZE = 100
PARTITIONS = 8
TOPIC = "bench"
HANDLER = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(HERE)!r})
from counter import Counter
add = Counter(Path(os.environ["BENCH_COUNTERS"])).add

def handler(context, event):
    add(1)
"""

Start = Callable[[str, Path], "subprocess.Popen[bytes]"]


async def fill(bootstrap: str) -> None:
    """RECORDS of SIZE bytes, in large batches."""
    value = b"x" * SIZE
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=1 << 18) as producer:
        left = RECORDS
        partition = 0
        while left:
            batch = producer.create_batch()
            while left and batch.append(key=None, value=value, timestamp=None):
                left -= 1
            await producer.send_batch(batch, TOPIC, partition=partition)
            partition = (partition + 1) % PARTITIONS


def bare(bootstrap: str, folder: Path) -> "subprocess.Popen[bytes]":
    """The reference."""
    command = [sys.executable, str(HERE / "bare.py"), bootstrap, TOPIC, str(uuid.uuid4()), str(folder)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def headrace(workers: int) -> Start:
    """The same handler as a function, with that many workers."""

    def start(bootstrap: str, folder: Path) -> "subprocess.Popen[bytes]":
        attributes = {"topics": [TOPIC], "brokers": [bootstrap], "consumerGroup": str(uuid.uuid4())}
        trigger = {"kind": "kafka-cluster", "numWorkers": workers, "attributes": attributes}
        function = {
            "metadata": {"name": "bench"},
            "spec": {"handler": "bench_handler:handler", "triggers": {"records": trigger}},
        }
        (folder / "function.yaml").write_text(yaml.safe_dump(function))
        (folder / "bench_handler.py").write_text(HANDLER)
        command = [sys.executable, "-P", "-m", "headrace", "run", str(folder), "--admin-port", "0"]
        env = {**os.environ, "BENCH_COUNTERS": str(folder)}
        return subprocess.Popen([*command, "--log-level", "warning"], env=env)

    return start


def measure(start: Start, bootstrap: str) -> float:
    """Events per second between 5 % and 95 % of the records: start-up and the last crumbs don't count."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = start(bootstrap, folder)
        try:
            began = _when(folder, RECORDS // 20)
            ended = _when(folder, RECORDS * 19 // 20)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    return RECORDS * 0.9 / (ended - began)


def _when(folder: Path, count: int) -> float:
    deadline = time.monotonic() + 120
    while total(folder) < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {total(folder)} of {count} records within 120 s")
        time.sleep(0.002)
    return time.monotonic()


async def main() -> None:
    """Print a table: rates, and ratios to the bare loop's median."""
    systems: dict[str, Start] = {
        "bare aiokafka getmany(500)": bare,
        "headrace, 1 worker": headrace(1),
        "headrace, 2 workers": headrace(2),
    }
    async with EmbeddedKafka() as kafka:
        await kafka.create_topics({TOPIC: PARTITIONS})
        print(f"producing {RECORDS} records of {SIZE} B onto {PARTITIONS} partitions", flush=True)
        await fill(kafka.bootstrap)
        rates: dict[str, list[float]] = {name: [] for name in systems}
        for number in range(ROUNDS):
            for name, start in systems.items():
                rates[name].append(await asyncio.to_thread(measure, start, kafka.bootstrap))
                print(f"round {number + 1}: {name}: {rates[name][-1]:,.0f} events/s", flush=True)
    reference = statistics.median(rates["bare aiokafka getmany(500)"])
    print(f"\n{'':30}{'min':>12}{'median':>12}{'max':>12}   of bare")
    for name, found in rates.items():
        middle = statistics.median(found)
        print(f"{name:30}{min(found):12,.0f}{middle:12,.0f}{max(found):12,.0f}   {middle / reference:.2f}")


if __name__ == "__main__":
    asyncio.run(main())

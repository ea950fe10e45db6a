"""What benchmarks share: topics full of records, systems as processes of their own, rates by a counter."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml
from aiokafka import AIOKafkaProducer
from counter import total
from folders import BENCHMARKS

PARTITIONS = 8
ADMIN_PORT = "0"  # any
_WAIT_SECONDS = 30
_WINDOW_SECONDS = 4.0

Process = subprocess.Popen[bytes]


@dataclass(frozen=True)
class Load:
    """A topic with `records` records of `size` bytes each."""

    bootstrap: str
    topic: str
    records: int
    size: int
    partitions: int = PARTITIONS


Start = Callable[[Load, Path], Process]
"""Start a system that counts, in that folder, the records of the load that it has handled."""


async def fill(load: Load) -> None:
    """In large batches, uncompressed."""
    value = b"x" * load.size
    batch_bytes = min(1 << 18, (1 << 25) // load.partitions)  # a request has one of each partition
    async with AIOKafkaProducer(bootstrap_servers=load.bootstrap, max_batch_size=batch_bytes) as producer:
        left, partition = load.records, 0
        sent = []
        while left:
            batch = producer.create_batch()
            room = max(1, load.records // load.partitions)  # no partition gets it all
            while left and room and batch.append(key=None, value=value, timestamp=None):
                left -= 1
                room -= 1
            sent.append(await producer.send_batch(batch, load.topic, partition=partition))
            partition = (partition + 1) % load.partitions
        await asyncio.gather(*sent)


def script(path: Path, python: str = sys.executable) -> Start:
    """A program of its own: `path BOOTSTRAP TOPIC GROUP COUNTER_FOLDER`."""

    def start(load: Load, folder: Path) -> Process:
        command = [python, str(path), load.bootstrap, load.topic, str(uuid.uuid4()), str(folder)]
        env = {**os.environ, "PYTHONPATH": str(BENCHMARKS)}
        return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=_log(folder))

    return start


COUNTS = """
def handler(context, event):
    add(1)
"""
COUNTS_ASYNC = """
async def handler(context, event):
    add(1)
"""
ACKS = """
import nuclio_sdk

async def handler(context, event):
    await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
    add(1)
"""
COUNTS_BATCHES = """
def handler(context, events):
    add(len(events))
"""
SLEEPS = """
import time

def handler(context, event):
    time.sleep(0.02)
    add(1)
"""
_PRELUDE = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(BENCHMARKS)!r})
from counter import Counter
add = Counter(Path(os.environ["BENCH_COUNTERS"])).add
"""


def headrace(  # what a function is made of
    workers: int,
    handler: str = COUNTS,
    *,
    acks: bool = False,
    batch_size: int = 0,
    python: str = sys.executable,
    **attributes: object,
) -> Start:
    """A function with that handler, run by the Headrace of that Python."""

    def start(load: Load, folder: Path) -> Process:
        kafka = {"topics": [load.topic], "brokers": [load.bootstrap], "consumerGroup": str(uuid.uuid4())}
        trigger = {"kind": "kafka-cluster", "numWorkers": workers, "attributes": kafka | attributes}
        if batch_size:
            trigger |= {"batch": {"mode": "enable", "batchSize": batch_size, "timeout": "100ms"}}
        if acks:
            trigger |= {"explicitAckMode": "explicitOnly"}
            kafka |= {"workerAllocationMode": "static"}
            trigger["attributes"] = kafka | attributes
        spec = {"handler": "bench_handler:handler", "triggers": {"records": trigger}}
        (folder / "function.yaml").write_text(yaml.safe_dump({"metadata": {"name": "bench"}, "spec": spec}))
        (folder / "bench_handler.py").write_text(_PRELUDE + handler)
        command = [python, "-P", "-m", "headrace", "run", str(folder), "--admin-port", ADMIN_PORT]
        env = {**os.environ, "BENCH_COUNTERS": str(folder), "HEADRACE_PASS_ENV": "BENCH_*"}
        return subprocess.Popen([*command, "--log-level", "warning"], env=env, stderr=_log(folder))

    return start


def _log(folder: Path) -> int:
    return os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def measure(start: Start, load: Load, look: Callable[[Path], object] = bool) -> float:
    """Events per second after the first 5 % of the records, over some seconds or up to 95 % of them.

    Start-up and the last crumbs don't count. `look` is shown the folder in the end. Raises RuntimeError where
    nothing comes.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = start(load, folder)
        try:
            begin, began = _wait(process, folder, load.records // 20, time.monotonic() + _WAIT_SECONDS)
            end, ended = _wait(process, folder, load.records * 19 // 20, began + _WINDOW_SECONDS)
        finally:
            stop(process)
        look(folder)
    if end == begin:
        raise RuntimeError(f"no record within {_WAIT_SECONDS} s")
    return (end - begin) / (ended - began)


def _wait(process: Process, folder: Path, count: int, deadline: float) -> tuple[int, float]:
    while (found := total(folder)) < count and time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"it ended: {(folder / 'log').read_text()[-300:]}")
        time.sleep(0.01)  # whoever looks more often takes part
    return found, time.monotonic()


def stop(process: Process) -> None:
    """In order; the hard way where that takes long."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

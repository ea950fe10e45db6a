"""How long a start takes, seconds: an embedded broker, the successor of a killed worker, commands."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from folders import ROOT
from rig import Load, headrace, stop

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

# Writes when each process has begun its first record; CLOCK_MONOTONIC is shared.
BEGINS = """
import time
begun = []

def handler(context, event):
    if not begun:
        begun.append(time.monotonic())
        with open(os.path.join(os.environ["BENCH_COUNTERS"], "begun"), "a") as file:
            file.write(f"{os.getpid()} {begun[0]}\\n")
    time.sleep(0.001)
"""


COMMANDS = {
    "headrace --help, at most 0.25": ["--help"],
    "headrace validate, at most 0.40": ["validate", str(ROOT / "examples/hello_kafka")],
}


def command_table(count: int = 5) -> dict[str, list[float]]:
    """Processor time of commands that people and editors wait for, user and system."""
    return {name: [_processor_seconds(said) for _ in range(count)] for name, said in COMMANDS.items()}


def _processor_seconds(said: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "headrace", *said], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def kafka_starts(count: int) -> list[float]:
    """Until the broker answers; what a machine needs only once was done before."""
    found = []
    for _ in range(count):
        began = time.monotonic()
        async with EmbeddedKafka():
            found.append(time.monotonic() - began)
    return found


def successor_starts(load: Load, count: int) -> list[float]:
    """From `kill -9` of a worker in a record to the first record of the process that takes its place."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = headrace(1, BEGINS)(load, folder)
        try:
            for number in range(count):
                pid, _ = _begun(folder, number)
                time.sleep(0.2)  # it is at work
                killed = time.monotonic()
                os.kill(pid, signal.SIGKILL)
                found.append(_begun(folder, number + 1)[1] - killed)
        finally:
            stop(process)
    return found


def _begun(folder: Path, number: int) -> tuple[int, float]:
    """The pid of process `number`, and when it began its first record."""
    path, deadline = folder / "begun", time.monotonic() + 30
    while time.monotonic() < deadline:
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) > number:
            pid, at = lines[number].split()
            return int(pid), float(at)
        time.sleep(0.005)
    raise RuntimeError("no record within 30 s")


async def start_table(load: Load, count: int = 5) -> dict[str, list[float]]:
    """Those of servers and workers."""
    return {
        "embedded Kafka, warm": await kafka_starts(count),
        "successor of a killed worker": await asyncio.to_thread(successor_starts, load, count),
    }

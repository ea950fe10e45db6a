"""`make demo`: this function on a real Kafka, a second replica joining midway, nothing lost.

The proof is counted from what the handlers wrote, against what the broker acknowledged to the producer.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from aiokafka import AIOKafkaProducer

from headrace.runtime.embedded_kafka import EmbeddedKafka
from headrace.runtime.errors import HeadraceError

TOPIC = "names"
PARTITIONS = 8
RECORDS = int(os.environ.get("DEMO_RECORDS", "100000"))
SECONDS = float(os.environ.get("DEMO_SECONDS", "20"))
PATIENCE_SECONDS = 60
TICK_SECONDS = 0.05
HERE = Path(__file__).parent


def say(text: str) -> None:
    """A line of our own among the replicas' log lines."""
    print(text, flush=True)


class Greetings:
    """What the handlers wrote: lines `partition offset text`, in a file per worker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self._sizes: dict[Path, int] = {}

    def look(self) -> int:
        """Count the lines that have come since the last look."""
        for path in self.folder.glob("*.txt"):
            with path.open("rb") as file:
                file.seek(self._sizes.get(path, 0))
                self.count += file.read().count(b"\n")
                self._sizes[path] = file.tell()
        return self.count

    def all(self) -> Counter[tuple[int, int]]:
        """How often each (partition, offset) was handled."""
        found: Counter[tuple[int, int]] = Counter()
        for path in self.folder.glob("*.txt"):
            rows = (line.split(" ", 2) for line in path.read_text().splitlines())
            found.update((int(partition), int(offset)) for partition, offset, _ in rows)
        return found


class Replica:
    """`headrace run` in a process of its own."""

    def __init__(self, name: str, brokers: str, folder: Path) -> None:
        self._command = [
            *(sys.executable, "-P", "-m", "headrace", "run", str(HERE), "--brokers", brokers),
            *("--admin-port", "0", "--replica-name", name),
        ]
        self._env = {**os.environ, "HELLO_FOLDER": str(folder / name)}

    async def start(self) -> None:
        """Its log lines go to this terminal."""
        self._process = await asyncio.create_subprocess_exec(*self._command, env=self._env)

    async def stop(self) -> int:
        """As Ctrl-C does."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()


async def produce(bootstrap: str, acked: set[tuple[int, int]]) -> None:
    """RECORDS names, evenly over SECONDS; what the broker acknowledged goes to `acked`."""
    pending: set[asyncio.Future[object]] = set()

    def on_ack(future: asyncio.Future[object]) -> None:
        pending.discard(future)
        metadata = future.result()
        acked.add((metadata.partition, metadata.offset))  # type: ignore[attr-defined]

    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, acks="all") as producer:
        started = time.monotonic()
        sent = 0
        while sent < RECORDS:
            due = min(RECORDS, int(RECORDS * (time.monotonic() - started + TICK_SECONDS) / SECONDS))
            for number in range(sent, due):
                future = await producer.send(TOPIC, f"name-{number}".encode(), partition=number % PARTITIONS)
                pending.add(future)
                future.add_done_callback(on_ack)
            sent = due
            await asyncio.sleep(TICK_SECONDS)
        await producer.flush()


async def main() -> int:
    """0 where the proof holds."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    acked: set[tuple[int, int]] = set()
    say("starting a Kafka broker of its own (the first time, Apache Kafka is downloaded: about a minute)")
    try:
        async with EmbeddedKafka() as kafka:
            await kafka.create_topics({TOPIC: PARTITIONS})
            return await demonstrate(kafka.bootstrap, folder, acked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def demonstrate(bootstrap: str, folder: Path, acked: set[tuple[int, int]]) -> int:
    """Produce, handle, let the second replica join, stop, count."""
    say(f"Kafka is at {bootstrap}; producing {RECORDS} records in {SECONDS:g} s onto {PARTITIONS} partitions")
    names = ("replica-A", "replica-B")
    for name in names:
        (folder / name).mkdir()
    first, second = (Replica(name, bootstrap, folder) for name in names)
    greetings = [Greetings(folder / name) for name in names]
    await first.start()
    producing = asyncio.create_task(produce(bootstrap, acked))
    running = [first]
    try:
        await watch(producing, greetings, acked, second, running)
    finally:
        codes = [await replica.stop() for replica in running]
    return report(greetings, acked, codes)


async def watch(
    producing: asyncio.Task[None],
    greetings: list[Greetings],
    acked: set[tuple[int, int]],
    second: Replica,
    running: list[Replica],
) -> None:
    """A line a second, until everything is handled or nothing has moved for PATIENCE_SECONDS."""
    started = moved = time.monotonic()
    last = -1
    while not producing.done() or last < len(acked):
        await asyncio.sleep(1)
        now = time.monotonic()
        counts = [each.look() for each in greetings]
        moved, last = (now, sum(counts)) if sum(counts) != last else (moved, last)
        pairs = zip(greetings, counts, strict=True)
        shares = ", ".join(f"{each.folder.name} {count}" for each, count in pairs)
        say(f"{now - started:4.0f} s   produced {len(acked):6}   handled {last:6}   ({shares})")
        if len(running) == 1 and len(acked) >= RECORDS / 2:
            say("       a second replica joins")
            await second.start()
            running.append(second)
        if producing.done() and now - moved > PATIENCE_SECONDS:
            say(f"nothing has moved for {PATIENCE_SECONDS} s")
            break
    await producing


def report(greetings: list[Greetings], acked: set[tuple[int, int]], codes: list[int]) -> int:
    """The last line, and the exit code that goes with it."""
    handled: Counter[tuple[int, int]] = Counter()
    for each in greetings:
        found = each.all()
        say(f"{each.folder.name} handled {found.total()}")
        handled += found
    lost = len(acked - handled.keys())
    duplicates = handled.total() - len(handled)
    say(f"produced {len(acked)}, handled {len(handled)}, lost {lost}, duplicates {duplicates}")
    is_proven = len(acked) == RECORDS and not lost and not duplicates and not any(codes)
    return 0 if is_proven else 1


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except HeadraceError as error:
        say(f"demo: {error}")
        sys.exit(error.exit_code)

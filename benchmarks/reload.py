"""`make bench-reload`: from saving a handler's file to its first record, under load, and what that loses.

200 records a second come all the while. Exits with 1 where a target is missed.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from aiokafka import AIOKafkaProducer

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from replica import lines, replica, wait_until, write_function
from worker_bench import PRELUDE

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

ROUNDS, RATE, TARGET_SECONDS = 20, 200, 1.5
TOPIC = "records"
HANDLER = """
def handler(context, event):
    write(f"{version} {{event.shard_id}} {{event.offset}} {{time.monotonic()}}")
"""


class Load:
    """`sent` records so far, until it is `over`."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.sent = 0
        self.is_over = False

    async def run(self) -> None:
        """All are acknowledged when this returns."""
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap) as producer:
            while not self.is_over:
                await producer.send(TOPIC, b"x", partition=self.sent % 8)
                self.sent += 1
                await asyncio.sleep(1 / RATE)


async def main() -> int:
    """1 where a target is missed."""
    async with EmbeddedKafka() as kafka:
        await kafka.create_topics({TOPIC: 8})
        load = Load(kafka.bootstrap)
        with tempfile.TemporaryDirectory() as name:
            sending = asyncio.create_task(load.run())
            return await asyncio.to_thread(measure, load, sending, Path(name) / "f")


def measure(load: Load, sending: "asyncio.Task[None]", folder: Path) -> int:
    """Save, wait for the new code to handle something, again."""
    write_function(folder, "", load.bootstrap, [TOPIC])
    save(folder, 0)
    taken = []
    with replica(folder, "--reload") as running:
        wait_until(lambda: first_of(folder, 0), about=running)
        for version in range(1, ROUNDS + 1):
            saved = time.monotonic()
            save(folder, version)
            taken.append(wait_until(lambda version=version: first_of(folder, version), about=running) - saved)
            print(f"  {taken[-1]:.2f} s", flush=True)
        load.is_over = True
        wait_until(sending.done)
        wait_until(lambda: len(handled(folder)) >= load.sent, about=running)
        joins = running.log.count("assigned:")
    repeated, lost = len(handled(folder)) - load.sent, load.sent - len(set(handled(folder)))
    print(f"median {statistics.median(taken):.2f} s, longest {max(taken):.2f} s (target {TARGET_SECONDS} s)")
    print(f"{load.sent} records, {lost} lost, {repeated} repeated, {joins - 1} rebalances")
    return int(max(taken) > TARGET_SECONDS or bool(lost or repeated or joins - 1))


def save(folder: Path, version: int) -> None:
    """A handler that says which one it is."""
    (folder / "function_code.py").write_text(PRELUDE + HANDLER.format(version=version))


def first_of(folder: Path, version: int) -> float:
    """When that one began its first record; 0 where it hasn't."""
    found = (line.split() for line in lines(folder))
    return next((float(it[3]) for it in found if it[0] == str(version)), 0.0)


def handled(folder: Path) -> list[tuple[str, ...]]:
    """Partition and offset of each record."""
    return [tuple(line.split()[1:3]) for line in lines(folder)]


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

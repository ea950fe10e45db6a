"""`make storm`: kill -9, many times, at random moments, and what it cost.

worker     one worker process of a busy replica dies: exactly the record that it was in runs again
processor  a busy replica dies: how long its workers outlive it

usage: kills.py [worker|processor] [--count N] [--seed N]
"""

import argparse
import asyncio
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from broker import Broker
from kafka_records import handled, produce
from replica import Replica, is_running, lines, replica, wait_until, write_function

from headrace.runtime.embedded_kafka import EmbeddedKafka

TOPIC = "records"
BATCH = 400
# One write before and one after: a record that was in when its worker died has a start without an end.
HANDLER = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} start")
        time.sleep(0.001)
        write(f"{event.topic} {event.shard_id} {event.offset} end", "ends")
"""


class Report:
    """Figures of one scenario, and how many of them break its bound."""

    def __init__(self, name: str, bound: str) -> None:
        self.name = name
        self.bound = bound
        self.figures: list[float] = []
        self.violations: list[str] = []

    def show(self, seed: int) -> bool:
        """Print; whether all held."""
        found = sorted(self.figures)
        print(
            f"{self.name}: {len(found)} kills, min {found[0]:.3f}, median {statistics.median(found):.3f}, "
            f"max {found[-1]:.3f} ({self.bound}); violations {len(self.violations)}, seed {seed}"
        )
        for violation in self.violations:
            print(f"  VIOLATION {violation}")
        return not self.violations


def kill_workers(broker: Broker, folder: Path, count: int, chance: random.Random) -> Report:
    """Records handled twice must be just those that had started and not ended when a worker died."""
    report = Report("kill -9 of a worker", "records repeated per kill, at most 1")
    write_function(folder, HANDLER, broker.bootstrap, [TOPIC], workers=2)
    with replica(folder) as running:
        running.wait_ready()
        produced = 0
        for number in range(count):
            before = len(lines(folder))
            produce(broker, TOPIC, BATCH)
            due = before + chance.randrange(20, BATCH // 2)
            wait_until(lambda due=due: len(lines(folder)) >= due, about=running)  # type: ignore[misc]
            os.kill(chance.choice(running.worker_pids()), signal.SIGKILL)
            produced += BATCH
            wait_until(lambda wanted=produced: len(set(lines(folder, "ends"))) >= wanted, about=running)  # type: ignore[misc]
            repeated = len(lines(folder)) - before - BATCH
            report.figures.append(repeated)
            if repeated > 1:
                report.violations.append(f"kill {number}: {repeated} records ran again")
        assert running.stop() == 0
    for key, offsets in handled(folder).items():
        if sorted(set(offsets)) != list(range(produced // 8)):
            report.violations.append(f"{key}: records are missing")
        if offsets != sorted(offsets):
            report.violations.append(f"{key}: out of order")
    return report


def kill_processors(broker: Broker, folder: Path, count: int, chance: random.Random) -> Report:
    """From the kill until the last of its workers is gone."""
    report = Report("kill -9 of a processor", "seconds until its workers are gone, at most 1")
    for number in range(count):
        function = write_function(folder / str(number), HANDLER, broker.bootstrap, [TOPIC], workers=4)
        produce(broker, TOPIC, BATCH)
        with replica(function) as running:
            wait_until(lambda at=function: len(lines(at)) > chance.randrange(10, 100), about=running)  # type: ignore[misc]
            report.figures.append(seconds_to_die(running))
        if report.figures[-1] > 1:
            report.violations.append(f"kill {number}: {report.figures[-1]:.2f} s")
    return report


def seconds_to_die(running: Replica) -> float:
    """Kill it, and wait for its workers."""
    pids = running.worker_pids()
    began = time.monotonic()
    running.kill()
    while any(map(is_running, pids)):
        time.sleep(0.002)
    return time.monotonic() - began


SCENARIOS = {"worker": kill_workers, "processor": kill_processors}


async def main() -> int:
    """0 where every bound held."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", nargs="?", choices=SCENARIOS)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    has_held = True
    for name in [options.scenario] if options.scenario else SCENARIOS:
        async with EmbeddedKafka() as kafka:
            await kafka.create_topics({TOPIC: 8})
            with tempfile.TemporaryDirectory() as folder:
                chance = random.Random(options.seed)
                broker = Broker(kafka.bootstrap, "embedded")
                report = await asyncio.to_thread(
                    SCENARIOS[name], broker, Path(folder) / "f", options.count, chance
                )
                has_held &= report.show(options.seed)
    return 0 if has_held else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

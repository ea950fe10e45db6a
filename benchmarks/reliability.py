"""`make bench-reliability`: the same faults for Headrace and its peers, and what they lose and repeat.

k1  kill -9 of a replica, again and again; somebody starts it again
k2  kill -9 of whatever runs the handler: a worker of Headrace, a whole process of the others
r1  replicas join and leave all the time, half of them by kill -9
p1  1 % of the records raise or end their process; who ended is started again

"lost" is what the group has committed and nobody handled, "stuck" what nobody has handled in the end.

usage: reliability.py [--seconds LOAD] [--count N] [--seed N] [--peer NAME] [--fault NAME]
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import peers
from aiokafka import AIOKafkaProducer
from folders import BENCHMARKS, ROOT

sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "storm")]

from broker import Broker  # noqa: E402  # the storms' own checkers
from deliveries import repeated  # noqa: E402
from history import RecordId, read_history  # noqa: E402
from kafka_records import group_offsets  # noqa: E402
from load import HANDLER  # noqa: E402
from order import out_of_order, overlaps  # noqa: E402
from processes import children_of  # noqa: E402
from replica import write_function  # noqa: E402

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka  # noqa: E402

REPLICAS = 3
PARTITIONS = 12
QUIET_SECONDS = 15
POISONOUS = HANDLER.replace(
    'note("START", event)',
    'note("START", event)\n'
    '        if event.body == b"raises":\n            raise ValueError\n'
    '        if event.body == b"exits":\n            os._exit(1)',
)

Start = Callable[[str, str, Path], "subprocess.Popen[bytes]"]


def headrace(bootstrap: str, topic: str, folder: Path) -> "subprocess.Popen[bytes]":
    """Its promise for poison is a policy: two attempts, then it is skipped, by its user's choice."""
    write_function(
        folder,
        POISONOUS,
        bootstrap,
        [topic],
        2,
        sessionTimeout="2s",
        onFailure={"maxAttempts": 2, "backoff": "100ms", "then": "skip"},
    )
    command = [sys.executable, "-P", "-m", "headrace", "run", str(folder), "--admin-port", "0"]
    return spawn(command, folder)


def peer(python: str, script: str, *more: str) -> Start:
    """A process that does all by itself."""

    def start(bootstrap: str, topic: str, folder: Path) -> "subprocess.Popen[bytes]":
        arguments = [bootstrap, topic, f"group-{topic}", str(folder / "history"), *more]
        return spawn([python, str(BENCHMARKS / script), *arguments], folder)

    return start


def spawn(command: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


@dataclass
class Run:
    """One peer under one fault."""

    start_one: Callable[[], "subprocess.Popen[bytes]"]
    folder: Path
    produced: set[RecordId]
    running: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self) -> None:
        """One more."""
        self.running.append(self.start_one())

    def stop(self, how: signal.Signals) -> "subprocess.Popen[bytes]":
        """One, by chance."""
        victim = self.running.pop(random.randrange(len(self.running)))
        victim.send_signal(how)
        return victim

    def revive(self) -> None:
        """What has ended by itself."""
        for ended in [it for it in self.running if it.poll() is not None]:
            self.running.remove(ended)
            self.start()

    @property
    def handled(self) -> int:
        """So far."""
        return len({it.record for it in read_history(self.folder) if it.what == "END"})

    @property
    def is_busy(self) -> bool:
        """A good part is left."""
        return self.handled < len(self.produced) * 0.9

    def settle(self) -> None:
        """All is handled, or nothing has moved for a while."""
        handled, since = -1, time.monotonic()
        while handled < len(self.produced) and time.monotonic() < since + QUIET_SECONDS:
            self.revive()
            if (now := self.handled) > handled:
                handled, since = now, time.monotonic()
            time.sleep(0.2)


def k1(run: Run) -> int:
    kills = 0
    while run.is_busy and kills < 100:
        time.sleep(random.uniform(1, 4))
        run.stop(signal.SIGKILL).wait()
        kills += 1
        time.sleep(random.uniform(0, 1))
        run.start()
    return kills


def k2(run: Run) -> int:
    kills = 0
    while run.is_busy and kills < 100:
        time.sleep(random.uniform(0.5, 2))
        processor = random.choice(run.running)
        workers = [it for it in children_of(processor.pid) if b"headrace.runtime.worker" in command_of(it)]
        with contextlib.suppress(ProcessLookupError):
            os.kill(random.choice(workers or [processor.pid]), signal.SIGKILL)
        kills += 1
        if not workers:
            processor.wait()
        run.revive()
    return kills


def command_of(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def r1(run: Run) -> int:
    changes = 0
    while run.is_busy and changes < 100:
        time.sleep(random.uniform(0.2, 2))
        changes += 1
        if len(run.running) == 1 or (len(run.running) <= REPLICAS and random.random() < 0.6):
            run.start()
        else:
            run.stop(random.choice([signal.SIGTERM, signal.SIGKILL])).wait()
    return changes


FAULTS: dict[str, Callable[[Run], int]] = {"k1": k1, "k2": k2, "r1": r1, "p1": lambda _: 0}


async def fill(bootstrap: str, topic: str, count: int, poison: float) -> set[RecordId]:
    """Records; those that are good."""
    good = set()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        for number in range(count):
            is_poison = random.random() < poison
            body = random.choice([b"raises", b"exits"]) if is_poison else b"good"
            await producer.send(topic, body, partition=number % PARTITIONS)
            if not is_poison:
                good.add((topic, number % PARTITIONS, number // PARTITIONS))
    return good


def contestants() -> dict[str, Start]:
    """By name."""
    loop = peer(sys.executable, "peer_aiokafka.py")
    found: dict[str, Start] = {"Headrace": headrace, "aiokafka loop": loop}
    try:
        python = peers.install("faststream_batch")
    except RuntimeError as error:
        print(f"FastStream is left out, it can't be installed here: {error}")
        return found
    found["FastStream"] = peer(python, "peer_faststream.py")
    found["FastStream, NACK_ON_ERROR"] = peer(python, "peer_faststream.py", "NACK_ON_ERROR")
    return found


def measure(start: Start, fault: str, broker: Broker, folder: Path, seconds: float) -> list[float]:
    """Faults, produced, lost, never handled, repeated, out of order, longest overlap."""
    topic = broker.create_topic(PARTITIONS)
    count = int(seconds * REPLICAS / 0.005 * 0.5)
    good = asyncio.run(fill(broker.bootstrap, topic, count, 0.01 if fault == "p1" else 0))
    run = Run(lambda: start(broker.bootstrap, topic, folder), folder, good)
    try:
        for _ in range(REPLICAS):
            run.start()
        while not run.handled:
            time.sleep(0.1)
        faults = FAULTS[fault](run)
        run.settle()
    finally:
        for process in run.running:
            process.terminate()
        for process in run.running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            process.kill()
    history = read_history(folder)
    missing = good - {it.record for it in history if it.what == "END"}
    committed = group_offsets(broker, f"group-{topic}")
    lost = {it for it in missing if it[2] < committed.get((it[0], it[1]), 0)}
    overlap = max((seconds for *_, seconds in overlaps(history)), default=0.0)
    return [
        faults,
        len(good),
        len(lost),
        len(missing - lost),
        len(repeated(history)),
        len(out_of_order(history)),
        overlap,
    ]


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--peer")
    parser.add_argument("--fault", choices=FAULTS)
    options = parser.parse_args()
    print(f"seed {options.seed}")
    print("| fault | peer | faults | records | lost | stuck | repeated | out of order | overlap, s |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    found = contestants()
    async with EmbeddedKafka() as kafka:
        broker = Broker(kafka.bootstrap, "embedded")
        for fault in [options.fault] if options.fault else FAULTS:
            for name in [options.peer] if options.peer else found:
                rows = []
                for number in range(options.count):
                    random.seed(f"{options.seed} {fault} {number}")
                    with tempfile.TemporaryDirectory() as folder:
                        work = (found[name], fault, broker, Path(folder), options.seconds)
                        rows.append(await asyncio.to_thread(measure, *work))
                *sums, _ = (sum(column) for column in zip(*rows, strict=True))
                worst = max(row[-1] for row in rows)
                cells = [fault, name, *(f"{it:.0f}" for it in sums), f"{worst:.3f}"]
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    asyncio.run(main())

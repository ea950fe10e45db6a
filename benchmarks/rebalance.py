"""`make bench-rebalance`: what stops where replicas join and leave, by both of Kafka's group protocols.

12 partitions that always have records; a record takes 10 ms, one in 60 takes 3 s. A partition stands still
while it has a record and no handler runs. Of a moved one, from the end of its last record at the one before.
"""

import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from broker import Broker, embedded
from kafka_records import produce
from replica import Replica, lines, replica, wait_until, write_function

PARTITIONS = 12
WORKERS = 6  # as many as a replica has partitions: none waits for another
RECORDS = PARTITIONS * 3000
SETTLE_SECONDS = 10.0
HANDLER = """
    def handler(context, event):
        began = time.time()
        time.sleep(3 if (event.offset + 7 * event.shard_id) % 60 == 30 else 0.01)
        write(f"{event.shard_id} {began:.4f} {time.time():.4f} {os.getppid()}")
"""
CLASSIC = {"sessionTimeout": "6s", "heartbeatInterval": "1s"}
PROTOCOLS: dict[str, dict[str, str]] = {"classic": CLASSIC, "consumer": {"groupProtocol": "consumer"}}
RETAINED_TARGET, MOVED_TARGET, NEWCOMER_TARGET = 0.05, 0.5, 2.0


@dataclass(frozen=True, slots=True)
class Span:
    """A record in a handler."""

    partition: int
    begin: float
    end: float
    replica: int


@dataclass(frozen=True, slots=True)
class Stops:
    """In seconds, the longest of each partition."""

    retained: list[float]
    moved: list[float]


def main() -> int:
    """1 where a target of the protocol consumer is missed."""
    print(
        f"{'event':<14}{'protocol':<10}{'retained: longest, sum':>24}{'moved: longest':>16}{'newcomer':>10}"
    )
    is_held = True
    for name, attributes in PROTOCOLS.items():
        with embedded() as kafka, tempfile.TemporaryDirectory() as folder:
            broker = Broker(kafka.bootstrap, "embedded")
            found = measure(broker, Path(folder), attributes)
        for event, (stops, newcomer) in found.items():
            longest, total = max(stops.retained), sum(it for it in stops.retained if it > RETAINED_TARGET)
            moved = max(stops.moved, default=0.0)
            first = f"{newcomer:8.2f} s" if newcomer is not None else ""
            retained = f"{longest * 1000:9.0f} ms {total:7.2f} s"
            print(f"{event:<14}{name:<10}{retained:>24}{moved:>14.2f} s{first:>10}", flush=True)
            if name == "consumer":
                is_held &= longest < RETAINED_TARGET and (newcomer or 0) < NEWCOMER_TARGET
                is_held &= event != "join 3 to 4" or moved < MOVED_TARGET
    print(f"retained < 50 ms, moved < 0.5 s at the join, newcomer < 2 s: {'held' if is_held else 'BROKEN'}")
    return 0 if is_held else 1


def measure(
    broker: Broker, folder: Path, attributes: dict[str, str]
) -> dict[str, tuple[Stops, float | None]]:
    """A join, then two that leave at once."""
    topic = broker.create_topic(PARTITIONS)
    options: dict[str, object] = {"maxWaitHandlerDuringRebalance": "5s", **attributes}
    function = write_function(folder / "f", HANDLER, broker.bootstrap, [topic], WORKERS, **options)
    with ExitStack() as stack:
        running = [stack.enter_context(replica(function, name=f"-{n}")) for n in range(3)]
        wait_until(lambda: shares(running) == [4, 4, 4], about=running[0])
        produce(broker, topic, RECORDS, PARTITIONS)
        time.sleep(SETTLE_SECONDS)
        joined = time.time()
        newcomer = stack.enter_context(replica(function, name="-3"))
        running.append(newcomer)
        wait_until(lambda: shares(running) == [3, 3, 3, 3], about=newcomer)
        time.sleep(SETTLE_SECONDS)
        left = time.time()
        for leaver in running[:2]:
            leaver.process.terminate()
        for leaver in running[:2]:
            leaver.process.wait()
        wait_until(lambda: shares(running[2:]) == [6, 6], about=newcomer)
        time.sleep(SETTLE_SECONDS)
        connected = newcomer.logged("connected to")
        spans = [span_of(line) for line in lines(function)]
    first = min(it.begin for it in spans if it.replica == newcomer.process.pid) - connected
    return {
        "join 3 to 4": (stops(spans, joined, left), first),
        "leave 4 to 2": (stops(spans, left, time.time()), None),
    }


def shares(running: Iterable[Replica]) -> list[int]:
    """How many partitions each has."""
    return [len(it.trigger()["partitions"]) for it in running]


def span_of(line: str) -> Span:
    """As the handler writes it."""
    partition, begin, end, pid = line.split()
    return Span(int(partition), float(begin), float(end), int(pid))


def stops(spans: list[Span], begin: float, end: float) -> Stops:
    """Of all partitions, between two times."""
    retained, moved = [], []
    for number in range(PARTITIONS):
        own = sorted((it for it in spans if it.partition == number), key=lambda it: it.begin)
        gaps = [(b.begin - a.end, a.replica != b.replica) for a, b in pairwise(own) if begin < b.begin < end]
        is_moved = any(moves for _, moves in gaps)
        (moved if is_moved else retained).append(max(seconds for seconds, _ in gaps))
    return Stops(retained, moved)


if __name__ == "__main__":
    sys.exit(main())

"""`make bench-rebalance`: what stops where replicas join and leave, by both of Kafka's group protocols.

12 partitions that always have records; a record takes 10 ms, one in 60, by chance, takes 3 s. A partition
stands still while it has a record and no handler runs. Of a moved one, from the end of its last record at the
replica before; `as one`: from the end of all that this one had to end for what moved, and where two leave at
once, both: the broker hands on nothing before that, and gives the second what was the first one's.
Of a newcomer's first record: what its partitions' last ones left of it.
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
    import random

    def handler(context, event):
        began = time.time()
        is_long = random.Random(event.offset * 100 + event.shard_id).random() < 1 / 60
        time.sleep(3 if is_long else 0.01)
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
    moved_as_one: list[float]


@dataclass(frozen=True, slots=True)
class Newcomer:
    """In seconds from its connection."""

    first_record: float
    first_end: float
    """Of what had to end in its partitions before."""


def main() -> int:
    """1 where a target of the protocol consumer is missed."""
    print(
        f"{'event':<14}{'protocol':<10}{'retained: longest, sum':>24}{'moved: longest, as one':>24}"
        f"{'newcomer, without ends':>24}"
    )
    is_held = True
    for name, attributes in PROTOCOLS.items():
        with embedded() as kafka, tempfile.TemporaryDirectory() as folder:
            broker = Broker(kafka.bootstrap, "embedded")
            found = measure(broker, Path(folder), attributes)
        for event, (stops, newcomer) in found.items():
            longest, total = max(stops.retained), sum(it for it in stops.retained if it > RETAINED_TARGET)
            moved, as_one = max(stops.moved, default=0.0), max(stops.moved_as_one, default=0.0)
            first = "" if newcomer is None else f"{newcomer.first_record:.2f} s"
            if newcomer is not None:
                first += f" {newcomer.first_record - max(0.0, newcomer.first_end):7.2f} s"
                is_held &= name != "consumer" or newcomer.first_record < NEWCOMER_TARGET
            retained = f"{longest * 1000:9.0f} ms {total:7.2f} s"
            print(
                f"{event:<14}{name:<10}{retained:>24}{f'{moved:.2f} s {as_one:7.2f} s':>24}{first:>24}",
                flush=True,
            )
            is_held &= name != "consumer" or (longest < RETAINED_TARGET and as_one < MOVED_TARGET)
    print(f"retained < 50 ms, moved as one < 0.5 s, newcomer < 2 s: {'held' if is_held else 'BROKEN'}")
    return 0 if is_held else 1


def measure(
    broker: Broker, folder: Path, attributes: dict[str, str]
) -> dict[str, tuple[Stops, Newcomer | None]]:
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
    return {
        "join 3 to 4": (stops(spans, joined, left), come(spans, newcomer.process.pid, connected, left)),
        "leave 4 to 2": (stops(spans, left, time.time(), are_givers_one=True), None),
    }


def shares(running: Iterable[Replica]) -> list[int]:
    """How many partitions each has."""
    return [len(it.trigger()["partitions"]) for it in running]


def span_of(line: str) -> Span:
    """As the handler writes it."""
    partition, begin, end, pid = line.split()
    return Span(int(partition), float(begin), float(end), int(pid))


def stops(spans: list[Span], begin: float, end: float, *, are_givers_one: bool = False) -> Stops:
    """Of all partitions, between two times. `are_givers_one`: nothing is handed on before all have ended."""
    retained, moved = [], []
    for number in range(PARTITIONS):
        gaps = [(before, after) for before, after in pairwise(of(spans, number)) if begin < after.begin < end]
        moves = [gap for gap in gaps if gap[0].replica != gap[1].replica]
        moved += moves
        if not moves:
            retained.append(max(after.begin - before.end for before, after in gaps))
    last = {
        giver: max(it.end for it, _ in moved if are_givers_one or it.replica == giver)
        for giver in {it.replica for it, _ in moved}
    }
    return Stops(
        retained,
        [after.begin - before.end for before, after in moved],
        [after.begin - max(before.end, last[before.replica]) for before, after in moved],
    )


def come(spans: list[Span], pid: int, connected: float, end: float) -> Newcomer:
    """What had to end before its first record, and that."""
    of_all = [pairwise(of(spans, number)) for number in range(PARTITIONS)]
    taken = [
        (before, after)
        for pairs in of_all
        for before, after in pairs
        if before.replica != pid == after.replica and after.begin < end
    ]
    return Newcomer(
        min(after.begin for _, after in taken) - connected, min(before.end for before, _ in taken) - connected
    )


def of(spans: list[Span], partition: int) -> list[Span]:
    """Its records, as they were handled."""
    return sorted((it for it in spans if it.partition == partition), key=lambda it: it.begin)


if __name__ == "__main__":
    sys.exit(main())

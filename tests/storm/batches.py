"""`make storm`: kill -9 between the write of a batch and its ack, and whether it comes again as it was.

replica  the processor is killed, and with it its workers; another one takes over
worker   one worker alone is killed

usage: batches.py [replica|worker] [--count N] [--seed N]
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from broker import Broker
from kafka_records import Feed, group_offsets, produce
from processes import is_running
from replica import Replica, lines, replica, set_trigger, wait_until, write_function
from scenario import Report, main

SIZE, BACKLOG = 20, 8000  # of a batch, and before the others, in records
# Each batch is one line, written before the handler waits, if it has to.
HANDLER = """
    import json
    def handler(context, events):
        parts = {}
        for event in events:
            parts.setdefault(event.shard_id, []).append(event.offset)
        time.sleep(0.05 * (len(parts) > 1))  # others pile up
        told = {"worker": os.getpid(), "parts": parts, "attempts": sorted({e.attempt for e in events})}
        write(json.dumps(told), "batches")
        if exists("hold"):
            write(os.getpid(), "held")
        while exists("hold"):
            time.sleep(0.005)
"""


@dataclass(frozen=True)
class Batch:
    worker: int
    parts: dict[int, list[int]]
    attempts: list[int]


def batches(function: Path) -> list[Batch]:
    """In the order in which handlers wrote them."""
    told = map(json.loads, lines(function, "batches"))
    return [Batch(t["worker"], {int(p): o for p, o in t["parts"].items()}, t["attempts"]) for t in told]


def offsets(found: list[Batch], partition: int) -> list[list[int]]:
    """The parts of one partition, batch by batch."""
    return [batch.parts[partition] for batch in found if partition in batch.parts]


def write_batch_function(broker: Broker, folder: Path, topic: str) -> Path:
    """Small batches, so that many are under way."""
    function = write_function(folder / "f", HANDLER, broker.bootstrap, [topic], sessionTimeout="2s")
    return set_trigger(function, batch={"mode": "enable", "batchSize": SIZE, "timeout": "50ms"})


def hold_some_batches(broker: Broker, function: Path, topic: str, running: Replica, number: int) -> int:
    """Records come; at a random moment all that is handled is written, and then waits. How many were sent.

    Every other time there is a backlog, so that full batches are planned ahead, and go without a commit each.
    """
    running.wait_ready()
    backlog = BACKLOG * (number % 2)
    if backlog:
        produce(broker, topic, backlog)
    with Feed.into(broker, topic) as feed:
        wait_until(lambda: len(batches(function)) > 3, about=running)
        time.sleep(random.uniform(0, 0.3 if backlog else 1.5))
        (function / "hold").touch()
        wait_until(lambda: len(lines(function, "held")) >= random.choice([1, 2]), about=running)
    return backlog + feed.sent


def finish(function: Path, running: Replica, sent: int) -> Counter[tuple[int, int]]:
    """Let everything be handled; how often each (partition, offset) was."""
    (function / "hold").unlink()

    def handled() -> Counter[tuple[int, int]]:
        return Counter((p, o) for batch in batches(function) for p, part in batch.parts.items() for o in part)

    wait_until(lambda: len(handled()) == sent, about=running)
    assert running.stop() == 0
    return handled()


def replica_killed(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """What was written and isn't committed comes again in the same parts, and nothing else does."""
    topic = broker.create_topic(8)
    function = write_batch_function(broker, folder, topic)
    with replica(function, name="-a") as first:
        sent = hold_some_batches(broker, function, topic, first, number)
        pids = first.worker_pids()
        first.kill()
        wait_until(lambda: not any(map(is_running, pids)))
    before = batches(function)
    committed = {partition: o for (_, partition), o in group_offsets(broker, f"group-{topic}").items()}
    with replica(function, name="-b") as second:
        times = finish(function, second, sent)
    after = batches(function)[len(before) :]
    open_parts = {
        partition: [part for part in offsets(before, partition) if part[-1] >= committed[partition]]
        for partition in range(8)
    }
    planned = sum(map(len, open_parts.values()))
    same = sum(
        offsets(after, partition)[at : at + 1] == [part]
        for partition, parts in open_parts.items()
        for at, part in enumerate(parts)
    )
    repeated = sum(len(part) for parts in open_parts.values() for part in parts)
    report.add_faults("kills", 1, number)
    # Those that are in handlers, and of a backlog those that have succeeded since the last commit.
    most = BACKLOG // SIZE * (number % 2) + 8
    report.add("parts written and not committed", planned, 1, most, number)
    report.add("of these, parts that came again with other boundaries", planned - same, 0, 0, number)
    report.add("records in them", repeated, 1, most * SIZE, number)
    report.add("records repeated outside of them", times.total() - sent - repeated, 0, 0, number)
    report.add("highest attempt", highest_attempt(after), 1, 1, number)
    report_the_rest(after, times, sent, report, number)


def worker_killed(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """The batch of the worker that died comes again in the same parts, once, and nothing else does."""
    topic = broker.create_topic(8)
    function = write_batch_function(broker, folder, topic)
    with replica(function) as running:
        sent = hold_some_batches(broker, function, topic, running, number)
        victim = int(random.choice(lines(function, "held")))
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: not is_running(victim), about=running)
        times = finish(function, running, sent)
    found = batches(function)
    last = max(at for at, batch in enumerate(found) if batch.worker == victim)
    killed, after = found[last].parts, found[last + 1 :]
    same = sum(offsets(after, partition)[0] == part for partition, part in killed.items())
    repeated = sum(map(len, killed.values()))
    report.add_faults("kills", 1, number)
    report.add("parts of the killed batch", len(killed), 1, 8, number)
    report.add("of these, parts that came again with other boundaries", len(killed) - same, 0, 0, number)
    report.add("records in them", repeated, 1, 20, number)
    report.add("records repeated outside of them", times.total() - sent - repeated, 0, 0, number)
    most = 2 if repeated == 1 else 1  # a death alone is a failure
    report.add("highest attempt", highest_attempt(after), 1, most, number)
    report_the_rest(after, times, sent, report, number)


def highest_attempt(found: list[Batch]) -> int:
    return max(max(batch.attempts) for batch in found)


def report_the_rest(
    after: list[Batch], times: Counter[tuple[int, int]], sent: int, report: Report, number: int
) -> None:
    """What holds after any kill."""
    in_order = [[o for part in offsets(after, partition) for o in part] for partition in range(8)]
    report.add("records lost", sent - len(times), 0, 0, number)
    report.add("partitions out of order", sum(found != sorted(found) for found in in_order), 0, 0, number)


if __name__ == "__main__":
    sys.exit(asyncio.run(main({"replica": replica_killed, "worker": worker_killed}, __doc__ or "")))

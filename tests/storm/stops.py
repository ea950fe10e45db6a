"""`make storm`: one of two replicas is told to stop while records come, at a random moment.

sigterm  from the signal to the exit, and to the time when the other owns everything; nothing runs twice
churn    replicas come and go all the time: nothing is lost, nothing runs twice, order holds

usage: stops.py [sigterm|churn] [--count N] [--seed N]
"""

import asyncio
import contextlib
import itertools
import random
import signal
import sys
import time
from pathlib import Path

from broker import Broker
from kafka_records import Feed, handled
from replica import QUICK_GROUP, Replica, lines, replica, wait_until, write_function
from scenario import Report, main

from headrace.runtime.settings.durations import parse_duration

CHANGES = 8
HEARTBEAT_SECONDS = parse_duration(QUICK_GROUP["heartbeatInterval"])
HANDLER = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset}")
        time.sleep(0.001)
"""


def sigterm(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Every record is handled once, whoever has its partition."""
    topic = broker.create_topic(8)
    function = write_function(folder / "f", HANDLER, broker.bootstrap, [topic])
    with replica(function, name="-a") as first, replica(function, name="-b") as second:
        first.wait_ready()
        second.wait_ready()
        wait_until(lambda: len(first.committed()) == len(second.committed()) == 4, about=second)
        leaver, stayer = random.sample([first, second], 2)
        with Feed.into(broker, topic) as feed:
            time.sleep(random.uniform(0.2, 2))
            began = time.time()
            leaver.process.send_signal(signal.SIGTERM)
            owned = stayer.logged(f"assigned: {topic}/0-7 ", after=began)
            code = leaver.process.wait(120)
            report.add("SIGTERM to exit, s", time.time() - began, 0, 5, number)
            time.sleep(0.3)
        with contextlib.suppress(TimeoutError):  # then some are lost
            wait_until(lambda: distinct(function) >= feed.sent)
        stayer.stop()
    report.add_faults("stops", 1, number)
    report.add("SIGTERM to the other's owning all, s", owned - began, 0, HEARTBEAT_SECONDS + 1, number)
    report.add("exit code", code, 0, 0, number)
    report.add("records handled", len(lines(function)), 100, 1e6, number)
    report.add("records lost", feed.sent - distinct(function), 0, 0, number)
    report.add("records handled twice", len(lines(function)) - distinct(function), 0, 0, number)
    disorder = sum(offsets != sorted(offsets) for offsets in handled(function).values())
    report.add("partitions out of order", disorder, 0, 0, number)


def churn(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Replicas come and go, some before they are members, some together."""
    topic = broker.create_topic(8)
    mode = random.choice(["pool", "static"])
    function = write_function(folder / "f", HANDLER, broker.bootstrap, [topic], workerAllocationMode=mode)
    codes = []
    with contextlib.ExitStack() as stack:
        started = itertools.count()

        def start() -> Replica:
            return stack.enter_context(replica(function, name=f"-{next(started)}"))

        running = [start().wait_ready(), start()]
        with Feed.into(broker, topic) as feed:
            for _ in range(CHANGES):
                time.sleep(random.choice([0, 0.2, random.uniform(0.2, 2)]))
                if len(running) == 1 or (len(running) < 4 and random.random() < 0.5):
                    running.append(start())
                else:
                    leaver = running.pop(random.randrange(len(running)))
                    leaver.url  # noqa: B018  # from then on it hears signals
                    codes.append(leaver.stop())
        with contextlib.suppress(TimeoutError):  # then some are lost
            wait_until(lambda: distinct(function) >= feed.sent)
        codes += [leaver.stop() for leaver in running]
    report.add_faults("joins and leaves", CHANGES, number)
    report.add("exit code", max(codes), 0, 0, number)
    report.add("records lost", feed.sent - distinct(function), 0, 0, number)
    report.add("records handled twice", len(lines(function)) - distinct(function), 0, 0, number)
    disorder = sum(offsets != sorted(offsets) for offsets in handled(function).values())
    report.add("partitions out of order", disorder, 0, 0, number)


def distinct(function: Path) -> int:
    """Records that were handled at least once."""
    return sum(len(set(offsets)) for offsets in handled(function).values())


if __name__ == "__main__":
    sys.exit(asyncio.run(main({"sigterm": sigterm, "churn": churn}, __doc__ or "")))

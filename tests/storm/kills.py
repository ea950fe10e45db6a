"""`make storm`: kill -9, again and again, at random moments, and what it cost.

worker     one worker of a busy replica dies: only the record that it was in runs again, and order holds
processor  a busy replica dies: how long its workers outlive it

usage: kills.py [worker|processor] [--count N]
"""

import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path

from broker import Broker
from kafka_records import handled, produce
from processes import is_running
from replica import lines, replica, wait_until, write_function
from scenario import Report, main

BATCH = 800
HANDLER = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset}")
        time.sleep(0.001)
"""


def worker(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Everything is handled, and at most one record twice."""
    topic = broker.create_topic(8)
    function = write_function(folder / "f", HANDLER, broker.bootstrap, [topic])
    produce(broker, topic, BATCH)
    moment = random.randrange(20, BATCH - 100)
    with replica(function) as running:
        wait_until(lambda: len(lines(function)) >= moment, about=running)
        os.kill(random.choice(running.worker_pids()), signal.SIGKILL)
        wait_until(
            lambda: sum(len(set(found)) for found in handled(function).values()) == BATCH, about=running
        )
        running.stop()
    report.add_faults("kills", 1, number)
    report.add("records repeated by the kill of a worker", len(lines(function)) - BATCH, 0, 1, number)
    disorder = sum(offsets != sorted(offsets) for offsets in handled(function).values())
    report.add("partitions out of order", disorder, 0, 0, number)


def processor(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """From the kill until the last of its workers is gone."""
    topic = broker.create_topic(8)
    function = write_function(folder / "f", HANDLER, broker.bootstrap, [topic], workers=4)
    produce(broker, topic, BATCH)
    moment = random.randrange(20, BATCH - 100)
    with replica(function) as running:
        wait_until(lambda: len(lines(function)) >= moment, about=running)
        pids = running.worker_pids()
        began = time.monotonic()
        running.kill()
        while any(map(is_running, pids)):
            time.sleep(0.001)
        report.add_faults("kills", 1, number)
        report.add("workers outlive their processor, s", time.monotonic() - began, 0, 1, number)


if __name__ == "__main__":
    sys.exit(asyncio.run(main({"worker": worker, "processor": processor}, __doc__ or "")))

"""`make storm`: a second replica joins, again and again, and how long each step took.

wait  a handler outsleeps maxWaitHandlerDuringRebalance: from the revoke to the kill of its worker
join  an idle group: from the newcomer's connection to its first handled record

usage: rebalances.py [wait|join] [--count N]
"""

import asyncio
import re
import sys
import time
from datetime import datetime
from pathlib import Path

from broker import Broker
from kafka_records import handled, produce
from replica import Replica, lines, replica, wait_until, write_function
from scenario import Report, main

WAIT_SECONDS = 2.0
SLEEPS = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {time.time()}")
        if not exists("go"):
            time.sleep(30)
"""
WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {time.time()} {os.getppid()}")
"""


def logged(running: Replica, text: str) -> float:
    """When a log line with `text` was written; seconds since the epoch. Waits for the line."""
    wait_until(lambda: text in running.log, about=running)
    line = re.search(rf"^(\S+) .*{re.escape(text)}", running.log, re.MULTILINE)
    assert line
    clock = datetime.strptime(line[1], "%H:%M:%S.%f").time()  # noqa: DTZ007
    return datetime.combine(datetime.now(), clock).timestamp()  # noqa: DTZ005  # the log's own zone


def wait(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """The handler gets its time to the millisecond, and the next owner goes on at once."""
    topic = broker.create_topic(8)
    function = write_function(
        *(folder / "f", SLEEPS, broker.bootstrap, [topic]),
        maxWaitHandlerDuringRebalance=f"{WAIT_SECONDS:g}s",
    )
    produce(broker, topic, 8)
    with replica(function, name="-a") as first:
        wait_until(lambda: len(lines(function)) == 2, about=first)
        with replica(function, name="-b") as second:
            began = logged(first, "revoked:")
            killed = logged(first, "was killed in")
            (function / "go").touch()
            wait_until(
                lambda: sum(len(set(found)) for found in handled(function).values()) == 8, about=second
            )
            assigned = min(logged(running, "assigned:") for running in (second,))
            resumed = min(float(line.split()[3]) for line in lines(function)[2:])
            report.add("revoke to kill, s", killed - began, WAIT_SECONDS - 0.1, WAIT_SECONDS + 0.1, number)
            report.add("assignment to the first record, s", resumed - assigned, -1, 1, number)


def join(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Records trickle in all the time; none is handled twice."""
    topic = broker.create_topic(8)
    function = write_function(folder / "f", WRITES, broker.bootstrap, [topic])
    sent = 0
    with replica(function, name="-a") as first:
        first.wait_ready()
        with replica(function, name="-b") as second:
            joined = logged(second, "connected to")
            while not (found := handled_by(function, second.process.pid)):
                produce(broker, topic, 8)
                sent += 1
            report.add("connection to the first handled record, s", min(found) - joined, 0, 1, number)
            wait_until(lambda: len(lines(function)) >= 8 * sent, about=second)
            second.stop()
        first.stop()
    repeated = len(lines(function)) - sum(len(set(offsets)) for offsets in handled(function).values())
    report.add("records handled twice", repeated, 0, 0, number)


def handled_by(function: Path, pid: int) -> list[float]:
    """When the workers of a processor handled records."""
    rows = [line.split() for line in lines(function)]
    return [float(row[3]) for row in rows if row[4] == str(pid)]


if __name__ == "__main__":
    started = time.monotonic()
    code = asyncio.run(main({"wait": wait, "join": join}, __doc__ or ""))
    print(f"{time.monotonic() - started:.0f} s in all")
    sys.exit(code)

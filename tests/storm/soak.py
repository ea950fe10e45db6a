"""`make storm`: hours in minutes, and what a replica must not lose or keep meanwhile.

s1  half of what it can handle, a worker killed every 5 s: no file, thread, process or memory is left
d1  its log goes to a full disk: the records don't notice

usage: soak.py [SCENARIO] [--count N] [--seed N] [--seconds LOAD]
"""

import asyncio
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from broker import Broker
from judge import Allowed
from kafka_records import Feed, group_offsets, produce
from load import HANDLER_SECONDS, Load, steady
from processes import children_of
from replica import Replica, lines, replica, wait_until, write_function
from scenario import Report, Scenario, main

KILL_SECONDS = 5
MAX_GROWTH_MIB = 16
WRITES = """
    def handler(context, event):
        print("a line for the log")
        write(event.offset)
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process holds."""

    files: int
    threads: int
    children: int
    resident_mib: float


def usage(pid: int) -> Usage:
    """Now."""
    proc = Path(f"/proc/{pid}")
    return Usage(
        len(list((proc / "fd").iterdir())),
        len(list((proc / "task").iterdir())),
        len(children_of(pid)),
        int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20),
    )


def s1(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """L10. Compared are the end and a third of the way, when all that is kept for good is there."""
    with Load(broker, folder, 0, partitions=8, handler=steady(HANDLER_SECONDS / 2)) as load:
        running = load.start().wait_ready()
        with Feed.into(broker, load.topic) as feed:
            run_for(running, report.seconds / 3)
            before = usage(running.process.pid)
            kills = run_for(running, report.seconds * 2 / 3)
            after = usage(running.process.pid)
        load.records = feed.sent
        load.finish()
    report.add_faults("kills", kills, number)
    report.add("L10 more files", after.files - before.files, -1e9, 2, number)
    report.add("L10 more threads", after.threads - before.threads, -1e9, 1, number)
    report.add("L10 more children", after.children - before.children, -1e9, 0, number)
    report.add("L10 more memory, MiB", after.resident_mib - before.resident_mib, -1e9, MAX_GROWTH_MIB, number)
    most = int(report.seconds / KILL_SECONDS) + 1
    load.check(report, number, Allowed(repeats=most, cut_off=most, attempts=1))


def run_for(running: Replica, seconds: float) -> int:
    """Kill a worker now and then; how many. All are there in the end."""
    end, kills = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        os.kill(random.choice(running.worker_pids()), signal.SIGKILL)
        kills += 1
        time.sleep(max(0, min(KILL_SECONDS, end - time.monotonic())))
    wait_until(
        lambda: all(worker["state"] == "ready" for worker in running.trigger()["workers"]), about=running
    )
    return kills


def d1(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Nothing but the log is written by a replica: offsets are the broker's."""
    topic, records = broker.create_topic(4), 400
    function = write_function(folder / "f", WRITES, broker.bootstrap, [topic])
    (function / "replica.txt").symlink_to("/dev/full")
    with replica(function) as running:
        produce(broker, topic, records, 4)
        wait_until(lambda: len(lines(function)) >= records)
        ends = {(topic, n): records // 4 for n in range(4)}
        wait_until(lambda: group_offsets(broker, f"group-{topic}") == ends)
        running.process.send_signal(signal.SIGTERM)
        report.add("exit code", running.process.wait(120), 0, 0, number)
    report.add_faults("full disks", 1, number)
    report.add("handled", len(lines(function)), records, records, number)


SCENARIOS: dict[str, Scenario] = {"s1": s1, "d1": d1}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))

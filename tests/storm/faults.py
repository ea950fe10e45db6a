"""`make storm`: replicas and workers that are killed, frozen and stopped under load.

k1-pool, k1-static  kill -9 of a replica, again and again
k2                  kill -9 of a worker process
k3                  a processor is frozen past its session, then goes on
k4                  SIGTERM of a replica
r1                  replicas join and leave all the time, cleanly and not, with every assignment strategy
t1                  a handler takes longer than every timeout of the group

usage: faults.py [SCENARIO] [--count N] [--seed N] [--seconds LOAD]
"""

import asyncio
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

from broker import Broker
from history import RECORDER, started_between
from load import HANDLER_SECONDS, SESSION_SECONDS, WORKERS, Fault, Load, pause
from replica import Replica, is_running, wait_until
from scenario import Report, Scenario, main

REPLICAS = 3
SLEEPER = f"""
{RECORDER}
    def handler(context, event):
        note("START", event)
        time.sleep(5 if event.offset == 3 else 0.001)
        note("END", event)
"""


def records_for(seconds: float, replicas: int = REPLICAS) -> int:
    """As many as keep so many replicas busy for about that long."""
    return int(seconds * replicas * WORKERS / HANDLER_SECONDS * 0.8)


def k1(mode: str, broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Whoever is killed is replaced; the others take over meanwhile."""
    faults: list[Fault] = []
    with Load(broker, folder, records_for(report.seconds), workerAllocationMode=mode) as load:
        load.begin(*REPLICAS * [load.function])
        while load.is_busy(left=1000):
            victim = random.choice(load.replicas)
            faults.append(load.kill(victim))
            pause(0, 1)
            load.start()
            pause(1, 5)
        load.finish()
        report.add("kills", len(faults), 1, 1e9, number)
        for fault in faults:
            resumed = load.resumed_seconds(fault)
            report.add(
                "kill to the next start in each partition, s", resumed, 0, 2 * SESSION_SECONDS + 2, number
            )
        load.check(report, number, load.may_repeat(faults))


def k2(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Only the record that it was in comes again, and the group doesn't notice."""
    kills = 0
    with Load(broker, folder, records_for(report.seconds)) as load:
        load.begin(*REPLICAS * [load.function])
        before = [running.trigger()["generation"] for running in load.replicas]
        while load.is_busy(left=1000):
            victim = random.choice(load.replicas)
            workers = victim.trigger()["workers"]
            worker = random.choice([it for it in workers if it["state"] == "ready"] or workers)
            began = time.monotonic()
            os.kill(worker["pid"], signal.SIGKILL)
            kills += 1
            wait_until(lambda: _is_replaced(victim, worker["pid"]), about=victim)  # noqa: B023  # called at once
            report.add("kill to the ready replacement, s", time.monotonic() - began, 0, 2, number)
            pause(0, 0.5)
        after = [running.trigger()["generation"] for running in load.replicas]
        load.finish()
        report.add("kills", kills, 1, 1e9, number)
        report.add("rebalances", before != after, 0, 0, number)
        load.check(report, number, kills)


def _is_replaced(running: Replica, pid: int) -> bool:
    workers = running.trigger()["workers"]
    return all(worker["pid"] != pid and worker["state"] == "ready" for worker in workers)


def k3(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """It wakes up when its partitions have long been somebody else's."""
    with Load(broker, folder, records_for(report.seconds)) as load:
        load.begin(*REPLICAS * [load.function])
        pause(0, 2)
        victim = random.choice(load.replicas)
        workers = victim.worker_pids()
        fault = Fault(victim.process.pid, time.monotonic_ns())
        os.kill(fault.pid, signal.SIGSTOP)
        wait_until(lambda: load.resumed_seconds(fault) > SESSION_SECONDS / 2, about=load.replicas[0])
        report.add("workers that outlive the lease", sum(map(is_running, workers)), 0, 0, number)
        pause(0, 1)
        woke_ns = time.monotonic_ns()
        os.kill(fault.pid, signal.SIGCONT)
        load.finish()
        owned_ns = fault.ns + int(load.resumed_seconds(fault) * 1e9)
        stale = started_between(load.history, fault.pid, owned_ns, woke_ns)
        report.add("L7 started while frozen, and another owned it", len(stale), 0, 0, number)
        attempts = max(entry.attempt for entry in load.history)
        report.add("attempts", attempts, 1, 1, number)
        load.check(report, number, load.may_repeat([fault]))


def k4(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Nothing is handled twice."""
    with Load(broker, folder, records_for(report.seconds)) as load:
        load.begin(*REPLICAS * [load.function])
        while load.is_busy(left=1000):
            leaver = load.replicas.pop(random.randrange(REPLICAS))
            began = time.monotonic()
            report.add("exit code", leaver.stop(), 0, 0, number)
            report.add("SIGTERM to exit, s", time.monotonic() - began, 0, 10, number)
            load.start().wait_ready()
            pause(0, 1)
        load.finish()
        load.check(report, number, 0)


def r1(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """At least one stays. With clean leaves only, nothing is handled twice."""
    strategy = ("range", "roundrobin", "sticky")[number % 3]
    is_clean = number % 2 == 0
    faults: list[Fault] = []
    changes = 0
    load = Load(broker, folder, records_for(report.seconds, 4), partitions=24, balanceStrategy=strategy)
    with load:
        load.begin(load.function, load.function)
        while load.is_busy(left=1000):
            pause(0.2, 2)
            changes += 1
            if len(load.replicas) == 1 or (len(load.replicas) < 4 and random.random() < 0.6):
                load.start()
                continue
            leaver = random.choice(load.replicas[1:])
            if is_clean:
                leaver.url  # noqa: B018  # from then on it hears signals
                load.replicas.remove(leaver)
                report.add("exit code", leaver.stop(), 0, 0, number)
            else:
                faults.append(load.kill(leaver))
        load.finish()
        report.add("joins and leaves", changes, 1, 1e9, number)
        report.add("kills", len(faults), 0, 1e9, number)
        load.check(report, number, load.may_repeat(faults))


def t1(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Handlers of 5 s, a session of 2 s; the group never rebalances for it."""
    load = Load(
        broker, folder, 120, handler=SLEEPER, rebalanceTimeout="3s", maxWaitHandlerDuringRebalance="1s"
    )
    with load:
        load.begin(load.function)
        running = load.replicas[0]
        before = running.trigger()["generation"]
        wait_until(lambda: not load.is_busy(), about=running)
        report.add("rebalances", running.trigger()["generation"] - before, 0, 0, number)
        load.finish()
        load.check(report, number, 0)


SCENARIOS: dict[str, Scenario] = {
    "k1-pool": partial(k1, "pool"),
    "k1-static": partial(k1, "static"),
    "k2": k2,
    "k3": k3,
    "k4": k4,
    "r1": r1,
    "t1": t1,
}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))

"""`make storm`: replicas and workers that are killed, frozen and stopped under load.

k1-pool, k1-static  kill -9 of a replica, again and again
k2                  kill -9 of a worker process
k3                  a replica is frozen past its session, then goes on: as a whole, or the processor alone
k4                  SIGTERM of a replica
r1                  replicas join and leave all the time, cleanly and not, with every assignment strategy
t1                  a handler takes longer than every timeout of the group
...-consumer        the same where the broker shares partitions out, and only those that move stop
k1-, k2-, r1-...    the same three where keys, or all records, may overtake each other, or 50 run at once

usage: faults.py [SCENARIO] [--count N] [--seed N] [--seconds LOAD]
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from broker import Broker
from frozen import gone_on_with, started_between, started_late
from history import RECORDER, Entry, RecordId
from judge import STALL_SECONDS, Allowed
from load import (
    HANDLER_SECONDS,
    LONG_AT_TIMES,
    LONG_AT_TIMES_SECONDS,
    SESSION_SECONDS,
    WORKERS,
    Fault,
    Load,
    pause,
)
from processes import children_of, is_running
from replica import Replica, wait_until
from scenario import Report, Scenario, main
from ways import BY_BROKER, IN_ORDER, SECONDS, WAYS, Way

REPLICAS = 3
SLEEPER = f"""
{RECORDER}
    def handler(context, event):
        note("START", event)
        time.sleep(5 if event.offset == 3 else 0.001)
        note("END", event)
"""


def records_for(
    seconds: float,
    replicas: int = REPLICAS,
    handler_seconds: float = HANDLER_SECONDS,
    way: Way = IN_ORDER,
) -> int:
    """As many as keep so many replicas busy for about that long."""
    if way.at_once > 1:
        handler_seconds = SECONDS
    return int(seconds * way.together(replicas * WORKERS, 12) / handler_seconds * 0.8)


def long_records_for(seconds: float, replicas: int = REPLICAS, way: Way = IN_ORDER) -> int:
    """The same for LONG_AT_TIMES."""
    return records_for(seconds, replicas, LONG_AT_TIMES_SECONDS, way)


def k1(way: Way, broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Whoever is killed is replaced; the others take over meanwhile."""
    faults: list[Fault] = []
    records = long_records_for(report.seconds, way=way)
    with Load(broker, folder, records, handler=LONG_AT_TIMES, way=way) as load:
        load.begin(*REPLICAS * [load.function])
        while load.is_busy(left=500):
            faults.append(kill_busy(load, random.choice(load.replicas)))
            pause(0, 1)
            load.start()
            pause(1, 5)
        load.finish()
        report.add_faults("kills", len(faults), number)
        for fault in faults:
            resumed = resumed_seconds_by_kill(load, fault, faults)
            report.add(
                "s to the next start, for each kill meanwhile", resumed, 0, SESSION_SECONDS + 2, number
            )
        check_deaths(load, faults, report, number)
        load.check(report, number, Allowed(load.may_repeat(faults), cut_off=load.in_hand * len(faults)))


def resumed_seconds_by_kill(load: Load, fault: Fault, faults: list[Fault]) -> float:
    """Who has taken over may be killed too, and then its session has to end as well."""
    seconds = load.resumed_seconds(fault)
    return seconds / sum(fault.ns <= other.ns <= fault.ns + seconds * 1e9 for other in faults)


def kill_busy(load: Load, victim: Replica) -> Fault:
    """In records that would last until long after somebody else has them, if a worker outlived the kill."""
    load.occupy(victim)
    pause(0, 0.5)
    return load.kill(victim)


def check_deaths(load: Load, faults: list[Fault], report: Report, number: int) -> None:
    """Workers end with their processor, whatever they are in."""
    last = {entry.replica: entry.ns for entry in load.history}
    for fault in faults:
        seconds = (last.get(fault.pid, fault.ns) - fault.ns) / 1e9
        report.add("kill to the last word of its workers, s", seconds, -1e9, 1, number)


def k2(way: Way, broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Only what it was in comes again, and the group doesn't notice."""
    kills = 0
    records = records_for(report.seconds + 4, way=way)  # a busy machine takes seconds for the first look
    # A suspect goes alone, and its worker may be killed again and again: that halts it by the default.
    policy = {"maxAttempts": 0, "maxBackoff": "1s"}
    pace = 0.5 if way.at_once == 1 else 2  # there are more suspects then
    with Load(broker, folder, records, way=way, onFailure=policy) as load:
        load.begin(*REPLICAS * [load.function])
        before = [running.trigger()["generation"] for running in load.replicas]
        while load.is_busy(left=1000):
            victim = random.choice(load.replicas)
            busy = [it for it in victim.trigger()["workers"] if it["running"]]
            if not busy:  # one that dies again and again before it is in a record is replaced more slowly
                continue
            worker = random.choice(busy)
            began = time.monotonic()
            os.kill(worker["pid"], signal.SIGKILL)
            kills += 1
            wait_until(lambda: _is_replaced(victim, worker["pid"]), about=victim)  # noqa: B023  # called at once
            report.add("kill to the ready replacement, s", time.monotonic() - began, 0, 2, number)
            pause(0, pace)
        after = [running.trigger()["generation"] for running in load.replicas]
        load.finish()
        report.add_faults("kills", kills, number)
        # A machine that is too busy for a heartbeat brings rebalances too.
        report.add("rebalances", before != after, 0, bool(load.lost_memberships()), number)
        most = kills * way.at_once
        load.check(report, number, Allowed(repeats=most, cut_off=most, attempts=1))


def _is_replaced(running: Replica, pid: int) -> bool:
    workers = running.trigger()["workers"]
    return all(worker["pid"] != pid and worker["state"] == "ready" for worker in workers)


def k3(way: Way, broker: Broker, folder: Path, number: int, report: Report) -> None:
    """It wakes up when its partitions have long been somebody else's."""
    faults: list[Fault] = []
    thawed: set[tuple[int, RecordId]] = set()
    wholes = 0
    left = long_records_for(4)
    with Load(
        broker, folder, left + long_records_for(report.seconds), handler=LONG_AT_TIMES, way=way
    ) as load:
        load.begin(*REPLICAS * [load.function])
        while load.is_busy(left):
            pause(0, 1)
            victim = random.choice(load.replicas)
            if (len(faults) + number) % 2 == 0:
                faults.append(freeze_processor(load, victim, report, number))
            else:
                fault, records = freeze_whole(load, victim, report, number)
                faults.append(fault)
                thawed |= records
                wholes += 1
        load.finish()
        report.add_faults("freezes of a processor", len(faults) - wholes, number, low=0)
        report.add_faults("freezes of a whole replica", wholes, number, low=0)
        attempts = max(entry.attempt for entry in load.history)
        report.add("attempts", attempts, 1, 1, number)
        allowed = Allowed(
            repeats=load.may_repeat(faults) + sum(map(load.handled_unknowing, faults)),
            cut_off=WORKERS * len(faults),
            memberships_lost=len(faults),
        )
        load.check(report, number, allowed, thawed=thawed)


def freeze_processor(load: Load, victim: Replica, report: Report, number: int) -> Fault:
    """Its workers go on, and its fence ends them in time: nothing overlaps."""
    workers = victim.worker_pids()
    load.occupy(victim)
    with frozen(load, victim, [victim.process.pid]) as fault:
        report.add("workers that outlive the lease", sum(map(is_running, workers)), 0, 0, number)
        pause(0, 1)
        woke_ns = time.monotonic_ns()
    wait_for_partitions(load, victim, woke_ns)
    stale = started_fenced(load, fault, woke_ns)
    report.add("L7 started while frozen, and another owned it", len(stale), 0, 0, number)
    return fault


def started_fenced(load: Load, fault: Fault, until_ns: int) -> list[Entry]:
    """What it started while others had its partitions, until it was whole again: nothing."""
    owned_ns = fault.ns + int(load.resumed_seconds(fault) * 1e9)
    return started_between(load.history, fault.pid, owned_ns, until_ns)


def freeze_whole(
    load: Load, victim: Replica, report: Report, number: int
) -> tuple[Fault, set[tuple[int, RecordId]]]:
    """As a container is. Each worker may finish the record that it was in, beside the new owner; no more."""
    workers = victim.worker_pids()
    if random.random() < 0.5:  # else, they would soon start another one
        load.occupy(victim)
    with frozen(load, victim, [victim.process.pid, *children_of(victim.process.pid)]) as fault:
        pause(0, 1)
        woke_ns = time.monotonic_ns()
    owned_ns = wait_for_partitions(load, victim, woke_ns)
    late = started_late(load.history, workers, woke_ns, owned_ns)
    report.add("L7 started after the thaw, and another owned it", len(late), 0, 0, number)
    thawed = gone_on_with((it for it in load.history if it.ns < owned_ns), workers, woke_ns)
    report.add("records that frozen workers went on with", len(thawed), 0, WORKERS, number)
    return fault, set(thawed.items())


@contextmanager
def frozen(load: Load, victim: Replica, pids: list[int]) -> Iterator[Fault]:
    """From when others run its partitions until the block ends. They stop and go on in any order."""
    random.shuffle(pids)
    pause(0, 0.5)
    fault = Fault(victim.process.pid, time.monotonic_ns())
    other = next(it for it in load.replicas if it is not victim)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(
            lambda: load.resumed_seconds(fault) > SESSION_SECONDS / 2 or not load.is_busy(), about=other
        )
        yield fault
    finally:
        load.free(victim)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # one that goes on may end another at once
                os.kill(pid, signal.SIGCONT)


def wait_for_partitions(load: Load, victim: Replica, woke_ns: int) -> int:
    """Until it handles records again, if any are left; when it was given partitions."""
    since_boot = time.time() - time.monotonic()
    owned = victim.logged("assigned:", after=woke_ns / 1e9 + since_boot - 0.001)
    owned_ns = int((owned - since_boot - 0.001) * 1e9)  # the log rounds
    starts_from(load, victim, owned_ns)
    return owned_ns


def starts_from(load: Load, victim: Replica, ns: int) -> list[Entry]:
    """What it has started since then, once it has, or nothing is left."""

    def found() -> list[Entry]:
        return started_between(load.history, victim.process.pid, ns, 2**63)

    wait_until(lambda: found() or not load.is_busy(), about=victim)
    return found()


def k4(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Nothing is handled twice."""
    stops = 0
    with Load(broker, folder, long_records_for(report.seconds), handler=LONG_AT_TIMES) as load:
        load.begin(*REPLICAS * [load.function])
        while load.is_busy(left=500):
            leaver = load.replicas.pop(random.randrange(REPLICAS))
            stops += 1
            began = time.monotonic()
            report.add("exit code", leaver.stop(), 0, 0, number)
            report.add("SIGTERM to exit, s", time.monotonic() - began, 0, 10, number)
            load.start().wait_ready()
            pause(0, 1)
        load.finish()
        report.add_faults("stops", stops, number)
        load.check(report, number, Allowed())


def r1(way: Way, broker: Broker, folder: Path, number: int, report: Report) -> None:
    """At least one stays. With clean leaves only, nothing is handled twice."""
    strategy = {"balanceStrategy": ("range", "roundrobin", "sticky")[number % 3]}
    if way.protocol == "consumer":
        strategy = {"groupRemoteAssignor": ("uniform", "range")[number // 2 % 2]}
    is_clean = number % 2 == 0
    faults: list[Fault] = []
    changes = 0
    records = long_records_for(report.seconds, 4, way)
    options = {"partitions": 24, "handler": LONG_AT_TIMES, "way": way}
    with Load(broker, folder, records, **strategy, **options) as load:  # type: ignore[arg-type]
        load.begin(load.function, load.function)
        while load.is_busy(left=500):
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
                faults.append(kill_busy(load, leaver))
        load.finish()
        report.add_faults("joins and leaves", changes, number)
        report.add_faults("kills", len(faults), number, low=0)
        check_deaths(load, faults, report, number)
        load.check(report, number, Allowed(load.may_repeat(faults), cut_off=load.in_hand * len(faults)))


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
        report.add_faults("handlers of 5 s", load.partitions, number)
        in_turn = 5.0 * load.partitions / WORKERS
        load.check(report, number, Allowed(stall_seconds=in_turn + STALL_SECONDS))


SCENARIOS: dict[str, Scenario] = {
    "k1-pool": partial(k1, IN_ORDER),
    "k1-static": partial(k1, Way(allocation="static")),
    "k2": partial(k2, IN_ORDER),
    "k3": partial(k3, IN_ORDER),
    "k4": k4,
    "r1": partial(r1, IN_ORDER),
    "t1": t1,
    "k1-consumer": partial(k1, BY_BROKER),
    "k3-consumer": partial(k3, BY_BROKER),
    "r1-consumer": partial(r1, BY_BROKER),
    **{f"k1-{name}": partial(k1, way) for name, way in WAYS.items()},
    **{f"k2-{name}": partial(k2, way) for name, way in WAYS.items()},
    **{f"r1-{name}": partial(r1, way) for name, way in WAYS.items()},
}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))

"""`make storm`: replicas with a groupInstanceId, which others come under while they live, are frozen or dead.

instance-ids  killed and replaced; frozen past its session, replaced, and gone on; two alive with one id;
              stopped and back; one more that comes and goes

usage: static_members.py [SCENARIO] [--count N] [--seed N] [--seconds LOAD]
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from broker import Broker
from faults import check_deaths, kill_busy, long_records_for
from frozen import gone_on_with, started_late
from history import RecordId
from judge import Allowed
from load import LONG_AT_TIMES, WORKERS, Fault, Load, pause
from processes import children_of, is_running
from replica import Replica, wait_until
from scenario import Report, Scenario, main
from ways import BY_BROKER

BOXES = ("box-1", "box-2", "box-3")


class Members:
    """Who has which id, and what was done to them."""

    def __init__(self, load: Load, report: Report, number: int) -> None:
        self.load = load
        self.by_id: dict[str, Replica] = {}
        self.kills: list[Fault] = []
        self.freezes: list[Fault] = []
        self.thawed: set[tuple[int, RecordId]] = set()
        """Records that frozen workers went on with, and by whom."""
        self._report = report
        self._number = number

    def add(self, name: str, value: float, low: float, high: float) -> None:
        """A figure."""
        self._report.add(name, value, low, high, self._number)

    def start(self, box: str) -> Replica:
        """It takes the place of whoever had the id."""
        self.by_id[box] = self.load.start(variables={"BOX": box})
        return self.by_id[box]

    def stop(self, victim: Replica) -> None:
        """In peace."""
        victim.url  # noqa: B018  # from then on it hears signals
        self.load.replicas.remove(victim)
        self.add("exit code", victim.stop(), 0, 0)

    def ready(self, box: str) -> Replica:
        """Its replica, once it is a member."""
        return self.by_id[box].wait_ready()


def killed(members: Members, box: str) -> None:
    """Its successor waits for its session."""
    members.kills.append(kill_busy(members.load, members.by_id[box]))
    pause(0, 1)
    members.start(box)


def restarted(members: Members, box: str) -> None:
    """What it had waits for it."""
    members.stop(members.ready(box))
    pause(0, 1)
    members.start(box)


def joined(members: Members, _box: str) -> None:
    """One more, for a moment. What it had waits for its session, as it may come back."""
    box = f"guest-{time.monotonic_ns()}"
    members.start(box)
    members.ready(box)
    pause(0, 2)
    members.stop(members.by_id.pop(box))


def doubled(members: Members, box: str) -> None:
    """The second one waits, says for whom, and gets nothing while the first lives."""
    first, load = members.ready(box), members.load
    second = members.start(box)
    wait_until(lambda: f"groupInstanceId {box}: waiting until" in second.get("/ready")[1], about=second)
    pause(0, 2)
    members.add("partitions of who waits for its id", len(second.trigger()["partitions"]), 0, 0)
    match random.randrange(3):
        case 0:
            members.by_id[box] = first
            members.stop(second)
        case 1:
            members.stop(first)
        case _:
            members.kills.append(kill_busy(load, first))


def frozen(members: Members, box: str) -> None:
    """It goes on when its successor has long been a member: it ends, and names the id."""
    victim, load = members.ready(box), members.load
    is_whole = random.random() < 0.5
    workers = victim.worker_pids()
    if not is_whole or random.random() < 0.5:
        load.occupy(victim)
        pause(0, 0.5)
    pids = [victim.process.pid, *(children_of(victim.process.pid) if is_whole else ())]
    random.shuffle(pids)
    load.replicas.remove(victim)
    members.freezes.append(Fault(victim.process.pid, time.monotonic_ns()))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    members.start(box).wait_ready()
    if not is_whole:
        members.add("workers that outlive the lease", sum(map(is_running, workers)), 0, 0)
    pause(0, 1)
    load.free(victim)
    woke_ns = time.monotonic_ns()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # one that goes on may end another at once
            os.kill(pid, signal.SIGCONT)
    members.add("exit code of who was replaced", victim.process.wait(60), 3, 3)
    is_named = f"has groupInstanceId {box} now" in victim.log
    members.add("lines of who was replaced that name the id", is_named, 1, 1)
    ended_ns, history = time.monotonic_ns(), load.history
    members.thawed |= set(gone_on_with(history, workers, woke_ns).items())
    late = started_late(history, workers, woke_ns, ended_ns)
    members.add("L7 started after the thaw, and another owned it", len(late), 0, 0)


FAULTS: dict[str, Callable[[Members, str], None]] = {
    "kills": killed,
    "freezes": frozen,
    "two with one id": doubled,
    "restarts": restarted,
    "joins and leaves": joined,
}


def instance_ids(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Each kind of fault once, then again, in another order."""
    records = long_records_for(report.seconds)
    done = dict.fromkeys(FAULTS, 0)
    with Load(broker, folder, records, handler=LONG_AT_TIMES, way=BY_BROKER, groupInstanceId="$BOX") as load:
        members = Members(load, report, number)
        for box in BOXES:
            members.start(box)
        load.begin()
        while load.is_busy(left=500):
            for name in random.sample(list(FAULTS), len(FAULTS)):
                if load.is_busy(left=500):
                    FAULTS[name](members, random.choice(BOXES))
                    done[name] += 1
                    pause(0, 1)
        load.finish()
        for name, count in done.items():
            report.add_faults(name, count, number, low=0)
        check_deaths(load, members.kills, report, number)
        faults = members.kills + members.freezes
        allowed = Allowed(
            load.may_repeat(faults) + sum(map(load.handled_unknowing, members.freezes)),
            cut_off=WORKERS * len(faults),
            memberships_lost=len(members.freezes),
        )
        load.check(report, number, allowed, thawed=members.thawed)


SCENARIOS: dict[str, Scenario] = {"instance-ids": instance_ids}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))

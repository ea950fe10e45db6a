"""v3io-kills: a group under load, whose replicas, workers and server are killed and started all the time."""

import asyncio
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

from history import Entry
from judge import Allowed, Evidence, judge
from load import Fault, pause
from processes import children_of, is_running
from replica import Replica, wait_until
from scenario import Report
from v3io_judging import returned
from v3io_load import Watch, producing, shard_ends, watched
from v3io_scene import V3ioScene, steady, v3io_scene

REPLICAS, SHARDS, WORKERS, RATE = 4, 16, 2, 500
SESSION_SECONDS = 5.0
GROUP = {"sessionTimeout": f"{SESSION_SECONDS:g}s", "heartbeatInterval": "1s"}
HANDLER_SECONDS = 0.005
STALL_SECONDS = 3 * (SESSION_SECONDS + 3)
"""A session that has to end, and a start, three times in a row."""
_LAST_SECONDS = 120.0


class Kills:
    """What was done to whom, and what that explains."""

    def __init__(self, scene: V3ioScene, watch: Watch) -> None:
        self.scene = scene
        self.watch = watch
        self.function = scene.function(REPLICAS, steady(HANDLER_SECONDS), workers=WORKERS, group=GROUP)
        self.replicas = [scene.start(self.function) for _ in range(REPLICAS)]
        self.killed: list[Fault] = []
        self.worker_kills = 0
        self.alive_until: dict[int, int] = {}

    def kill(self) -> None:
        """kill -9 of a replica, and a new one."""
        victim = self._victim()
        alive = list(filter(is_running, children_of(victim.process.pid)))
        fault = Fault(victim.process.pid, self.scene.kill(victim))
        self.alive_until |= dict.fromkeys(alive, fault.ns)
        self.killed.append(fault)
        self._start()

    def stop(self) -> None:
        """SIGTERM of a replica, and a new one."""
        victim = self._victim()
        assert victim.stop() == 0, victim.log
        self._start()

    def kill_worker(self) -> None:
        """kill -9, of any."""
        with suppress(OSError, ValueError, KeyError, IndexError, AssertionError):
            pids = random.choice(self.replicas).worker_pids()
            os.kill(random.choice(pids), signal.SIGKILL)
            self.worker_kills += 1

    def restart_server(self) -> None:
        """kill -9 of it, and at once again."""
        asyncio.run(self.scene.server.restart(kill=True))

    def _victim(self) -> Replica:
        victim = random.choice(self.replicas)
        self.replicas.remove(victim)
        return victim

    def _start(self) -> None:
        self.replicas.append(self.scene.start(self.function))

    def uncommitted(self, fault: Fault) -> list[Entry]:
        """What its victim had handled, and hadn't committed when somebody looked last."""
        known = [sample.offsets for sample in self.watch.commits if sample.ns <= fault.ns]
        committed = known[-1] if known else {}
        return [
            it
            for it in self.scene.history
            if it.what == "END" and it.replica == fault.pid and it.offset >= committed.get(it.key, 1)
        ]

    def lost_memberships(self) -> int:
        """Those that replicas have noticed."""
        return sum(len(it.log_times("others have shards of member")) for it in self.scene.started)


def kills(folder: Path, number: int, report: Report) -> None:
    """As long as the load lasts: one fault after the other."""
    faults = {"kill": 0, "stop": 0, "kill_worker": 0, "restart_server": 0}
    with v3io_scene(folder, SHARDS) as scene, watched(scene, SHARDS) as watch:
        storm = Kills(scene, watch)
        wait_until(lambda: sum(map(len, scene.shares())) == SHARDS, about=scene.started[-1])
        with producing(scene, SHARDS, RATE):
            wait_until(lambda: len({it.replica for it in scene.runs}) == REPLICAS)
            ends = time.monotonic() + report.seconds
            while time.monotonic() < ends:
                name = random.choices(list(faults), [3, 2, 2, 2])[0]
                getattr(storm, name)()
                faults[name] += 1
                pause(0.5, 5)
        names = ("kills of replicas", "stops of replicas", "kills of workers", "kills of the server")
        for name, count in zip(names, faults.values(), strict=True):
            report.add_faults(name, count, number)
        log_ends = wait_done(scene, watch, SHARDS)
        for running in storm.replicas:
            report.add("exit code", running.stop(), 0, 0, number)
        check(storm, log_ends, report, number)


def wait_done(scene: V3ioScene, watch: Watch, shard_count: int) -> dict[tuple[str, int], int]:
    """The ends of all shards, once they are committed, or time is up."""
    ends = shard_ends(scene, shard_count)
    try:
        wait_until(lambda: watch.commits[-1].offsets == ends, _LAST_SECONDS)
    except TimeoutError:
        print("  not all was handled and committed", flush=True)
    return ends


def check(storm: Kills, log_ends: dict[tuple[str, int], int], report: Report, number: int) -> None:
    """What every storm shows, and that no shard was anybody's twice."""
    scene, watch = storm.scene, storm.watch
    all_records = {(*key, sequence) for key, end in log_ends.items() for sequence in range(1, end)}
    report.add("acknowledged, and not in the log", len(scene.produced - all_records), 0, 0, number)
    repeats = sum(len(storm.uncommitted(fault)) for fault in storm.killed)
    late = storm.lost_memberships()
    cut_off = WORKERS * (len(storm.killed) + late) + storm.worker_kills
    evidence = Evidence(
        all_records,
        log_ends,
        scene.history,
        watch.commits,
        alive_until=storm.alive_until,
        memberships_lost=late,
    )
    judge(evidence, Allowed(repeats, cut_off, stall_seconds=STALL_SECONDS), report, number)
    report.add("L4 shards of two sessions at a time", len(watch.doubly_owned()), 0, 0, number)
    report.add("L4 shards that went back to an owner", len(returned(scene.history)), 0, 0, number)

"""The pieces of v3io-members: what the group of a stream promises when its members come and go, and how soon.

Sessions last for 10 s and are renewed every 3 s, as by default. Whoever begins with the shards of
one that is gone has waited for its session to end, and for no more than a look (1 s) after that.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from deliveries import lost
from replica import Replica, wait_until
from scenario import Report
from v3io_judging import begun_twice, handled_twice, returned, together
from v3io_load import Watch, producing, watched
from v3io_scene import V3ioScene, v3io_scene

USUAL = {"sessionTimeout": "10s", "heartbeatInterval": "3s"}
SESSION_SECONDS, HEARTBEAT_SECONDS, COMMIT_SECONDS = 10.0, 3.0, 1.0
RATE, MOST_RATE = 200, 500
WORKERS = 2
AWAY_SECONDS = 60.0
RENEWED_FOR_SECONDS = 12.0
TAKEN_LOW = SESSION_SECONDS - HEARTBEAT_SECONDS
TAKEN_HIGH = 13.0


def start_together(scene: V3ioScene, replicas: int, shards: int, workers: int = WORKERS) -> list[Replica]:
    """All wait for the stream, which is then made."""
    function = scene.function(replicas, group=USUAL, workers=workers)
    members = [scene.start(function) for _ in range(replicas)]
    for running in members:
        running.logged("waiting for stream")
    scene.create_stream(shards)
    return members


def registered_seconds(scene: V3ioScene, shares: Sequence[list[int]]) -> float:
    """From now on until these are what sessions have."""
    began = time.monotonic()
    scene.wait_shares(*shares)
    return time.monotonic() - began


def even(replicas: int, shards: int) -> list[list[int]]:
    """Shares, where they are all of a size."""
    size = shards // replicas
    return [list(range(at * size, (at + 1) * size)) for at in range(replicas)]


def first_run_seconds(scene: V3ioScene, running: Replica, since_ns: int) -> float:
    """Until it has begun its first record since then."""
    pid = running.process.pid
    found = wait_until(lambda: [it.ns for it in scene.runs if it.replica == pid and it.ns > since_ns])
    return (min(found) - since_ns) / 1e9


def kill(scene: V3ioScene, victim: Replica) -> tuple[int, list[float]]:
    """When that was, and how many seconds before that it had handled what wasn't committed yet."""
    committed = scene.commits()
    killed_ns = scene.kill(victim)
    own = [it for it in scene.history if it.what == "END" and it.replica == victim.process.pid]
    return killed_ns, [(killed_ns - it.ns) / 1e9 for it in own if it.offset >= committed.get(it.key, 1)]


def check(scene: V3ioScene, watch: Watch, report: Report, number: int, repeats: int = 0) -> None:
    """Once all is handled, or time is up."""
    try:
        scene.wait_handled()
        wait_until(lambda: scene.lag() == 0, 60)
    except TimeoutError:
        print("  not all was handled and committed", flush=True)
    history = scene.history
    report.add("produced", len(scene.produced), 1, 1e9, number)
    report.add("L1 lost", len(lost(scene.produced, history)), 0, 0, number)
    report.add("L2 repeated beyond what a death explains", max(0, twice(scene) - repeats), 0, 0, number)
    report.add("L4 overlaps of owners", len(together(history)), 0, 0, number)
    report.add("L4 shards that went back to an owner", len(returned(history)), 0, 0, number)
    report.add("L4 shards of two sessions at a time", len(watch.doubly_owned()), 0, 0, number)


def twice(scene: V3ioScene) -> int:
    """Records that were handled again."""
    return len(handled_twice(scene.history))


def three(folder: Path, number: int, report: Report) -> None:
    """S1, S2: at once, and then renewed."""
    with v3io_scene(folder, 0) as scene:
        start_together(scene, 3, 12)
        report.add("3 members registered, s", registered_seconds(scene, even(3, 12)), 0, 5, number)
        beats: dict[str, set[int]] = {it.member_id: {it.heartbeat_ns} for it in scene.sessions()}
        ends = time.monotonic() + RENEWED_FOR_SECONDS
        while time.monotonic() < ends:
            for it in scene.sessions():
                beats[it.member_id].add(it.heartbeat_ns)
        for found in map(sorted, beats.values()):
            gaps = [(b - a) / 1e9 for a, b in pairwise(found)]
            report.add("between two heartbeats, s", max(gaps), 0, HEARTBEAT_SECONDS + 1, number)


def many(folder: Path, number: int, report: Report) -> None:
    """S2: 32 at once, on 64 shards."""
    with v3io_scene(folder, 0) as scene:
        start_together(scene, 32, 64, workers=1)
        with watched(scene, 64) as watch:
            report.add("32 members registered, s", registered_seconds(scene, even(32, 64)), 0, 25, number)
        scene.put(5, shards=64)
        check(scene, watch, report, number)


def death(folder: Path, number: int, report: Report) -> None:
    """S7: kill -9 of one of three under load, and a new one at once."""
    with v3io_scene(folder, 0) as scene, watched(scene, 12) as watch:
        victim = start_together(scene, 3, 12)[0]
        scene.wait_shares(*even(3, 12))
        with producing(scene, 12, RATE):
            wait_until(lambda: len(scene.commits()) == 12)
            wait_until(lambda: victim.process.pid in {it.replica for it in scene.runs})
            killed_ns, ages = kill(scene, victim)
            successor = scene.start(victim_function(scene))
            taken = first_run_seconds(scene, successor, killed_ns)
            report.add("kill -9 to the successor's first record, s", taken, TAKEN_LOW, TAKEN_HIGH, number)
        report.add(
            "oldest record that may be repeated, s", max(ages, default=0), 0, COMMIT_SECONDS + 1, number
        )
        check(scene, watch, report, number, repeats=len(ages))
        report.add_faults("kills", 1, number)


def victim_function(scene: V3ioScene) -> Path:
    """What all replicas of a scene with one function run."""
    return scene.folder / "f"


def stop(folder: Path, number: int, report: Report) -> None:
    """S8: SIGTERM of one of three under load, with a fourth one that stands by."""
    with v3io_scene(folder, 0) as scene, watched(scene, 12) as watch:
        first = start_together(scene, 3, 12)[0]
        scene.wait_shares(*even(3, 12))
        successor = scene.start(victim_function(scene))
        successor.logged("this replica stands by")
        with producing(scene, 12, RATE):
            wait_until(lambda: first.process.pid in {it.replica for it in scene.runs})
            stopped_ns = time.monotonic_ns()
            report.add("exit code", first.stop(), 0, 0, number)
            taken = first_run_seconds(scene, successor, stopped_ns)
            report.add("SIGTERM to the successor's first record, s", taken, 0, 2, number)
        check(scene, watch, report, number)
        report.add("L2 begun twice", len(begun_twice(scene.history)), 0, 0, number)


def rolling(folder: Path, number: int, report: Report) -> None:
    """S9: all of three, one by one, twice, at 500 records a second."""
    with v3io_scene(folder, 0) as scene, watched(scene, 12) as watch:
        members = start_together(scene, 3, 12)
        scene.wait_shares(*even(3, 12))
        with producing(scene, 12, MOST_RATE):
            for running in members:
                first_run_seconds(scene, running, 0)
            for _ in range(2 * len(members)):
                report.add("exit code", members.pop(0).stop(), 0, 0, number)
                members.append(scene.start(victim_function(scene)))
                first_run_seconds(scene, members[-1], 0)
        report.add_faults("replicas replaced", 6, number)
        check(scene, watch, report, number)
        report.add("L2 begun twice", len(begun_twice(scene.history)), 0, 0, number)


def gone(folder: Path, number: int, report: Report) -> None:
    """S10: nobody comes for the shards of a dead one, and its session ends all the same."""
    with v3io_scene(folder, 12) as scene:
        function = scene.function(3, group=USUAL)
        members = [scene.start(function) for _ in range(2)]
        scene.wait_shares(*even(3, 12)[:2])
        killed_ns = scene.kill(members[0])
        wait_until(lambda: len(scene.sessions()) == 1)
        seconds = (time.monotonic_ns() - killed_ns) / 1e9
        report.add("kill -9 to the end of its session, s", seconds, TAKEN_LOW, TAKEN_HIGH, number)


def more(folder: Path, number: int, report: Report) -> None:
    """S24: from 2 replicas to 4, on 8 shards."""
    change(folder, number, report, (2, 4, 8), stopped)


def fewer(folder: Path, number: int, report: Report) -> None:
    """S24: from 4 replicas to 2, on 2 shards, by kill -9."""
    change(folder, number, report, (4, 2, 2), lambda scene, running: len(kill(scene, running)[1]))


def stopped(_: V3ioScene, running: Replica) -> int:
    """How many records that explains to be repeated: none."""
    running.stop()
    return 0


def change(
    folder: Path,
    number: int,
    report: Report,
    numbers: tuple[int, int, int],
    end: Callable[[V3ioScene, Replica], int],
) -> None:
    """New ones are there before the old ones go."""
    before, after, shards = numbers
    with v3io_scene(folder, shards) as scene, watched(scene, shards) as watch:
        old_function = scene.function(before, name="old", group=USUAL)
        new_function = scene.function(after, name="new", group=USUAL)
        old = [scene.start(old_function) for _ in range(before)]
        wait_until(lambda: len(scene.sessions()) == before)
        with producing(scene, shards, RATE):
            new = [scene.start(new_function) for _ in range(after)]
            for running in new:
                scene.owner(running)
            began = time.monotonic()
            repeats = sum(end(scene, running) for running in old)
            wait_until(lambda: scene.shares() == even(after, shards))
            name = f"{before} to {after} replicas, all shards have an owner, s"
            report.add(name, time.monotonic() - began, 0, TAKEN_HIGH, number)
        check(scene, watch, report, number, repeats)


def away(folder: Path, number: int, report: Report) -> None:
    """S20: the web API is away for a minute."""
    with v3io_scene(folder, 0) as scene, watched(scene, 12) as watch:
        members = start_together(scene, 3, 12)
        scene.wait_shares(*even(3, 12))
        with producing(scene, 12, RATE):
            wait_until(lambda: {it.replica for it in scene.runs} == {it.process.pid for it in members})
            asyncio.run(scene.server._halt(signal.SIGKILL))
            away_ns = time.monotonic_ns()
            time.sleep(AWAY_SECONDS)
            back_ns = time.monotonic_ns()
            asyncio.run(scene.server._launch())
            for running in members:
                report.add(
                    "back to first record, s", first_run_seconds(scene, running, back_ns), 0, 8, number
                )
        last_ns = max((it.ns for it in scene.runs if it.ns < back_ns), default=away_ns)
        report.add("handled after it went, s", (last_ns - away_ns) / 1e9, -1, SESSION_SECONDS + 0.1, number)
        report.add("exits", sum(it.process.poll() is not None for it in members), 0, 0, number)
        check(scene, watch, report, number)
        begun = len(begun_twice(scene.history))
        report.add("L2 begun twice", begun, 0, WORKERS * len(members), number)
        report.add_faults("outages of 60 s", 1, number)


PIECES: Sequence[Callable[[Path, int, Report], None]] = (
    three,
    many,
    death,
    stop,
    rolling,
    gone,
    more,
    fewer,
    away,
)

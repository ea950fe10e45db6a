"""A replica that is killed, stopped or replaced under load, and who goes on with its shards."""

import time
from pathlib import Path
from typing import Any

import pytest
from replica import Replica, wait_until
from v3io_judging import begun_twice, check_one_owner, handled_twice, owners
from v3io_load import producing
from v3io_scene import SLOW_GROUP, TOPIC, V3ioScene, v3io_scene

SESSION_NS = 3 * 10**9
COMMIT_SECONDS = 1.0
RATE = 150


def wait_busy(scene: V3ioScene, running: Replica) -> None:
    """It has handled something of all its shards."""
    shards = set(scene.owner(running).shards)

    def handled() -> set[int]:
        return {
            it.partition for it in scene.history if it.what == "END" and it.replica == running.process.pid
        }

    wait_until(lambda: shards <= handled(), about=running)


def test_a_successor_waits_for_the_session_of_a_killed_replica_and_loses_nothing(tmp_path: Path) -> None:
    """What it had handled since its last commit runs again, and nothing else."""
    with v3io_scene(tmp_path, 12) as scene:
        function = scene.function(replicas=3)
        members = [scene.start(function) for _ in range(3)]
        scene.wait_shares([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11])
        with producing(scene, 12, RATE):
            for running in members:
                wait_busy(scene, running)
            wait_until(lambda: len(scene.commits()) == 12)
            victim = members[0]
            before = scene.owner(victim)
            killed_ns = scene.kill(victim)
            (last,) = [it for it in scene.sessions() if it.member_id == before.member_id]
            committed = scene.commits()
            successor = scene.start(function)
            scene.wait_owned(successor, before.shards)
            wait_busy(scene, successor)
        scene.wait_handled()
        first_ns = min(it.ns for it in scene.runs if it.replica == successor.process.pid)
        assert first_ns + time.time_ns() - time.monotonic_ns() >= last.heartbeat_ns + SESSION_NS
        check_one_owner(scene.history)
        done = [it for it in scene.history if it.what == "END" and it.replica == victim.process.pid]
        uncommitted = {it.record for it in done if it.offset >= committed.get(it.key, 1)}
        assert set(handled_twice(scene.history)) <= uncommitted
        in_hand = len(begun_twice(scene.history)) - len(handled_twice(scene.history))
        assert in_hand <= 2  # one for each of its workers
        oldest_ns = min((it.ns for it in done if it.record in uncommitted), default=killed_ns)
        assert (killed_ns - oldest_ns) / 1e9 < COMMIT_SECONDS + 10  # a busy machine's commits come late


def test_a_replica_that_stops_hands_over_at_once_and_nothing_runs_twice(tmp_path: Path) -> None:
    """Sessions that would be waited for last for minutes here."""
    with v3io_scene(tmp_path, 12) as scene:
        function = scene.function(replicas=1, group=SLOW_GROUP)
        first = scene.start(function)
        scene.wait_shares(list(range(12)))
        second = scene.start(function)
        second.logged("this replica stands by")
        with producing(scene, 12, RATE):
            wait_busy(scene, first)
            assert first.stop() == 0
            scene.wait_owned(second, range(12))
            wait_busy(scene, second)
        scene.wait_handled()
        assert second.stop() == 0
        assert not begun_twice(scene.history)
        check_one_owner(scene.history)
        assert set(map(tuple, owners(scene.history).values())) == {(first.process.pid, second.process.pid)}
        assert scene.lag() == 0


@pytest.mark.full
def test_a_rolling_update_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    """Of three, one by one, under load: each newcomer has what its predecessor had."""
    with v3io_scene(tmp_path, 8) as scene:
        function = scene.function(replicas=3, group=SLOW_GROUP)
        members = [scene.start(function) for _ in range(3)]
        scene.wait_shares([0, 1, 2], [3, 4], [5, 6, 7])
        with producing(scene, 8, RATE):
            for running in members:
                wait_busy(scene, running)
            for running in members:
                shards = scene.owner(running).shards
                assert running.stop() == 0
                newcomer = scene.start(function)
                scene.wait_owned(newcomer, shards)
                wait_busy(scene, newcomer)
        scene.wait_handled()
        assert {pids[0] for pids in owners(scene.history).values()} == {it.process.pid for it in members}
        assert not begun_twice(scene.history)
        check_one_owner(scene.history)
        assert [it.stop() for it in scene.started[3:]] == [0, 0, 0]
        assert scene.lag() == 0


@pytest.mark.full
def test_a_record_in_a_handler_is_finished_before_its_shard_is_handed_over(tmp_path: Path) -> None:
    with v3io_scene(tmp_path, 1) as scene:
        held = """
            def handler(context, event):
                write(f"begun {event.offset} {os.getppid()}")
                wait_for("go")
                write(f"done {event.offset} {os.getppid()}")
        """
        patience: dict[str, Any] = {"workerTerminationTimeout": "5m"}
        function = scene.function(replicas=1, handler=held, group=SLOW_GROUP, **patience)
        first = scene.start(function)
        scene.wait_shares([0])
        second = scene.start(function)
        scene.put(2, shards=1)
        log = tmp_path / "log"
        wait_until(log.exists, about=first)
        first.process.terminate()
        first.logged("SIGTERM")
        second.logged("this replica stands by")
        assert [it.shards for it in scene.sessions()] == [(0,)]
        (tmp_path / "go").touch()
        assert first.process.wait(60) == 0
        one, two = first.process.pid, second.process.pid
        expected = [f"begun 1 {one}", f"done 1 {one}", f"begun 2 {two}", f"done 2 {two}"]
        wait_until(lambda: log.read_text().splitlines() == expected, about=second)
        wait_until(lambda: scene.commits() == {(TOPIC, 0): 3}, about=second)

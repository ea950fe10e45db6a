"""The group's state under members' hands: written by many at once, wiped, and given to others."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest
from replica import frozen, wait_until
from v3io_judging import begun_twice, check_one_owner, handled_twice
from v3io_load import producing
from v3io_scene import GROUP, PLACE, QUICK_GROUP, SLOW_GROUP, v3io_scene

from headrace.runtime.v3io.addresses import V3ioAccess
from headrace.runtime.v3io.client import V3ioClient
from headrace.runtime.v3io.group_format import SessionState
from headrace.runtime.v3io.group_state import StateItem
from headrace.runtime.v3io.retry import backoff_seconds

WRITERS, INCREMENTS = 8, 200
SESSION_NS = 3 * 10**9


async def count_up(url: str, writer: int) -> int:
    """Each writer raises one number, and one of its own; how often another one was faster."""
    met = 0
    async with V3ioClient(V3ioAccess(url)) as client:
        item = StateItem(client, PLACE, GROUP)
        for _ in range(INCREMENTS):
            for pause in backoff_seconds():
                state = await item.read()
                counts = {it.member_id: it.heartbeat_ns for it in state.sessions}
                for name in ("all", f"writer-{writer}"):
                    counts[name] = counts.get(name, 0) + 1
                sessions = (SessionState(name, count, ()) for name, count in sorted(counts.items()))
                if await item.replace(state, tuple(sessions)) is None:
                    break
                met += 1
                await asyncio.sleep(pause / 10)
    return met


@pytest.mark.full
def test_no_writer_of_the_state_undoes_what_another_one_has_written(tmp_path: Path) -> None:
    async def all_writers(url: str) -> list[int]:
        return await asyncio.gather(*(count_up(url, writer) for writer in range(WRITERS)))

    with v3io_scene(tmp_path, 1) as scene:
        assert sum(asyncio.run(all_writers(scene.url))) > 0
        counts = {it.member_id: it.heartbeat_ns for it in scene.sessions()}
    own = {f"writer-{writer}": INCREMENTS for writer in range(WRITERS)}
    assert counts == own | {"all": WRITERS * INCREMENTS}


@pytest.mark.full
def test_after_the_state_was_wiped_every_member_has_the_shards_that_it_had(tmp_path: Path) -> None:
    """And whatever it handles goes on."""
    with v3io_scene(tmp_path, 12) as scene:
        function = scene.function(replicas=3, group=SLOW_GROUP)
        for _ in range(3):
            scene.start(function)
        before = scene.wait_shares([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11])
        with producing(scene, 12, 100):
            wait_until(lambda: len(scene.ended) > 100)
            scene.wipe_state()
            wait_until(lambda: len(scene.sessions()) == 3)
            names = [(it.member_id, it.shards) for it in scene.sessions()]
            assert names == [(it.member_id, it.shards) for it in before]
            count = len(scene.ended)
            wait_until(lambda: len(scene.ended) > count + 100)
        scene.wait_handled()
        assert not begun_twice(scene.history)
        check_one_owner(scene.history)
        assert all(len(running.log_times("assigned:")) == 1 for running in scene.started)


def test_a_member_whose_shards_another_one_has_lets_go_of_all_and_comes_back_as_a_new_one(
    tmp_path: Path,
) -> None:
    """A thief without a heartbeat has them for as long as a session lasts, and nobody handles them then."""
    with v3io_scene(tmp_path, 4) as scene:
        running = scene.start(scene.function(replicas=1))
        (before,) = scene.wait_shares([0, 1, 2, 3])
        with producing(scene, 4, 100):
            wait_until(lambda: len(scene.ended) > 50, about=running)
            thief = SessionState("thief", time.time_ns(), (1, 2))
            scene.replace_sessions(lambda sessions: (*sessions, replace(thief, heartbeat_ns=time.time_ns())))
            (stolen,) = [it for it in scene.sessions() if it.member_id == "thief"]
            lost = running.logged(f"others have shards of member {before.member_id}")
            owned = running.logged("assigned: /orders/0-3", after=lost)
            wait_until(lambda: scene.shares() == [[0, 1, 2, 3]], about=running)
            (after,) = scene.sessions()
        scene.wait_handled()
        wait_until(lambda: scene.lag() == 0, about=running)
        assert after.member_id != before.member_id
        assert owned * 1e9 > stolen.heartbeat_ns + SESSION_NS - 10**7  # logs have milliseconds
        zero_ns = time.time_ns() - time.monotonic_ns()
        stolen_runs = [zero_ns + it.ns for it in scene.runs if it.partition in stolen.shards]
        assert not [ns for ns in stolen_runs if (lost + 0.1) * 1e9 < ns < stolen.heartbeat_ns + SESSION_NS]
        again = set(handled_twice(scene.history))
        assert len(again) < 500  # since the last commit
        assert running.stop() == 0


def test_a_replica_that_slept_through_the_whole_turn_of_another_one_repeats_nothing_of_it(
    tmp_path: Path,
) -> None:
    """By when it wakes, its shards have been handled by somebody who is gone again."""
    with v3io_scene(tmp_path, 2) as scene:
        function = scene.function(replicas=1, group=QUICK_GROUP)
        sleeper = scene.start(function)
        scene.wait_shares([0, 1])
        scene.put(50, shards=2)
        scene.wait_handled()
        wait_until(lambda: scene.lag() == 0)
        other = scene.start(function)
        other.logged("this replica stands by")
        with frozen(sleeper):
            wait_until(lambda: [it.member_id for it in scene.sessions()] == [other.trigger()["memberId"]])
            scene.put(50, shards=2)
            scene.wait_handled()
            wait_until(lambda: scene.lag() == 0)
            assert other.stop() == 0
        wait_until(lambda: len(scene.sessions()) == 1, about=sleeper)
        scene.put(50, shards=2)
        scene.wait_handled()
        wait_until(lambda: scene.lag() == 0, about=sleeper)
        assert not begun_twice(scene.history)
        check_one_owner([it for it in scene.history if it.offset > 50])
        assert sleeper.stop() == 0

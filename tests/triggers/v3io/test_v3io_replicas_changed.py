"""Replicas of another number, and more shards: what a new version of a function finds there."""

from pathlib import Path

import pytest
from replica import wait_until
from v3io_judging import begun_twice, check_one_owner
from v3io_load import producing, watched
from v3io_scene import SLOW_GROUP, v3io_scene


@pytest.mark.full
def test_more_replicas_than_before_take_what_the_old_ones_leave(tmp_path: Path) -> None:
    """From 2 to 4 on 8 shards: the new ones are there before the old ones go."""
    with v3io_scene(tmp_path, 8) as scene:
        old_function = scene.function(replicas=2, name="old", group=SLOW_GROUP)
        new_function = scene.function(replicas=4, name="new", group=SLOW_GROUP)
        old = [scene.start(old_function) for _ in range(2)]
        scene.wait_shares([0, 1, 2, 3], [4, 5, 6, 7])
        with watched(scene, 8) as watch, producing(scene, 8, 100):
            new = [scene.start(new_function) for _ in range(4)]
            scene.wait_shares([0, 1, 2, 3], [4, 5, 6, 7], [], [], [], [])
            assert old[0].stop() == 0
            wait_until(lambda: sum(len(shares) for shares in scene.shares()) == 8, about=new[0])
            assert old[1].stop() == 0
            scene.wait_shares([0, 1], [2, 3], [4, 5], [6, 7])
        scene.wait_handled()
        assert not watch.doubly_owned()
        assert not begun_twice(scene.history)
        check_one_owner(scene.history)
        assert [it.stop() for it in new] == [0, 0, 0, 0]
        assert scene.lag() == 0


@pytest.mark.full
def test_fewer_replicas_than_before_take_all_that_the_old_ones_leave(tmp_path: Path) -> None:
    """From 4 to 2 on 2 shards, where two of the old ones have nothing."""
    with v3io_scene(tmp_path, 2) as scene:
        old_function = scene.function(replicas=4, name="old")
        new_function = scene.function(replicas=2, name="new")
        old = [scene.start(old_function) for _ in range(4)]
        scene.wait_shares([0], [1], [], [])
        with watched(scene, 2) as watch, producing(scene, 2, 50):
            new = [scene.start(new_function) for _ in range(2)]
            scene.wait_shares([0], [1], [], [], [], [])
            for running in old:
                scene.kill(running)
            ids = {it.trigger()["memberId"] for it in new}
            wait_until(lambda: {it.member_id for it in scene.sessions()} == ids, about=new[0])
            scene.wait_shares([0], [1])
        scene.wait_handled()
        assert not watch.doubly_owned()
        check_one_owner(scene.history)
        assert [it.stop() for it in new] == [0, 0]
        assert scene.lag() == 0


@pytest.mark.full
def test_shards_that_a_stream_gets_are_read_from_the_next_start_on(tmp_path: Path) -> None:
    with v3io_scene(tmp_path, 2) as scene:
        function = scene.function(replicas=1, group=SLOW_GROUP)
        before = scene.start(function)
        scene.wait_shares([0, 1])
        scene.put(10, shards=2)
        scene.wait_handled()
        scene.widen(4)
        scene.put(10, shards=4)
        wait_until(lambda: len(scene.ended) == 40, about=before)
        assert scene.shares() == [[0, 1]]
        assert before.stop() == 0
        after = scene.start(function)
        scene.wait_shares([0, 1, 2, 3])
        scene.wait_handled()
        assert not begun_twice(scene.history)
        assert after.stop() == 0
        assert scene.lag() == 0

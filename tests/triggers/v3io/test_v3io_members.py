"""Replicas of a function that share a stream: who gets what, as they come, wait and stand by."""

from pathlib import Path

import pytest
from replica import wait_until
from v3io_judging import begun_twice, check_one_owner, owners
from v3io_scene import SLOW_GROUP, v3io_scene

THREE = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.full
def test_the_first_member_has_its_share_alone_and_renews_its_session(tmp_path: Path) -> None:
    with v3io_scene(tmp_path, 12) as scene:
        assert scene.sessions() == ()
        running = scene.start(scene.function(replicas=3))
        (first,) = scene.wait_shares(THREE[0])
        beats = {first.heartbeat_ns}

        def renewed() -> int:
            beats.add(scene.owner(running).heartbeat_ns)
            return len(beats)

        wait_until(lambda: renewed() == 4, about=running)
        (last,) = scene.sessions()
        assert (last.member_id, last.shards) == (first.member_id, first.shards)
        assert first.member_id.startswith("f-")
        scene.put(5, shards=4)
        scene.wait_handled()
        wait_until(lambda: scene.lag() == 0, about=running)
        assert running.stop() == 0
        assert scene.sessions() == ()


@pytest.mark.full
def test_members_that_come_at_once_share_all_shards(tmp_path: Path) -> None:
    """They wait for the stream; a fourth one gets nothing, says so seldom, and takes over where one dies."""
    with v3io_scene(tmp_path, 0) as scene:
        function = scene.function(replicas=3)
        members = [scene.start(function) for _ in range(4)]
        for running in members:
            running.logged("waiting for stream bigdata/orders")
        scene.create_stream(12)
        scene.wait_shares(*THREE)
        scene.put(20, shards=12)
        scene.wait_handled()
        assert len({pid for pids in owners(scene.history).values() for pid in pids}) == 3
        ids = {it.member_id for it in scene.sessions()}
        (idle,) = [it for it in members if it.trigger()["memberId"] not in ids]
        idle.logged("this replica stands by")
        status, said = idle.get("/ready")
        assert status == 503
        assert "no partition is assigned to this replica: it stands by" in said
        victim = next(it for it in members if it is not idle)
        shards = scene.owner(victim).shards
        scene.kill(victim)
        wait_until(lambda: shards in [it.shards for it in scene.sessions() if it.member_id not in ids])
        scene.put(5, shards=12)
        scene.wait_handled()
        assert idle.process.poll() is None
        assert len(idle.log_times("stands by")) < 5  # of more looks than it has had heartbeats
        check_one_owner(scene.history)


@pytest.mark.full
def test_idle_members_stay_in_the_group_and_are_promoted(tmp_path: Path) -> None:
    """Two shards for four: when an owner leaves, one that has waited goes on, and nothing runs twice."""
    with v3io_scene(tmp_path, 2) as scene:
        function = scene.function(replicas=4, group=SLOW_GROUP)
        members = [scene.start(function) for _ in range(4)]
        sessions = scene.wait_shares([0], [1], [], [])
        idle = {it.member_id for it in sessions if not it.shards}
        scene.put(50, shards=2)
        scene.wait_handled()
        owner = next(it for it in members if scene.owner(it).shards == (0,))
        assert owner.stop() == 0
        after = scene.wait_shares([0], [1], [])
        assert after[0].member_id in idle
        scene.put(50, shards=2)
        scene.wait_handled()
        assert not begun_twice(scene.history)
        check_one_owner(scene.history)
        assert [it.stop() for it in members if it is not owner] == [0, 0, 0]


@pytest.mark.full
def test_a_member_that_is_gone_is_removed_by_others(tmp_path: Path) -> None:
    """Although nobody comes for its shards: those that are there keep their own."""
    with v3io_scene(tmp_path, 12) as scene:
        function = scene.function(replicas=3)
        members = [scene.start(function) for _ in range(2)]
        before = scene.wait_shares(*THREE[:2])
        scene.kill(members[0])
        wait_until(lambda: len(scene.sessions()) == 1, about=members[1])
        (left,) = scene.sessions()
        (own,) = [it for it in before if it.member_id == members[1].trigger()["memberId"]]
        (dead,) = [it for it in before if it is not own]
        assert (left.member_id, left.shards) == (own.member_id, own.shards)
        assert left.heartbeat_ns >= dead.heartbeat_ns + 3 * 10**9  # not before its time was over

"""The web API goes away under load and comes back: no exit, no loss, and nobody goes on for too long."""

import asyncio
import signal
from pathlib import Path

import pytest
from history import RECORDER
from processes import is_running
from replica import Replica, wait_until
from v3io_judging import begun_twice, check_one_owner, handled_twice
from v3io_load import producing, watched
from v3io_scene import SLOW_GROUP, V3ioScene, v3io_scene

HANGS = f"""
{RECORDER}
    import ctypes

    def handler(context, event):
        note("START", event)
        if exists("hang") and event.shard_id == 0:
            ctypes.PyDLL(None).sleep(600)
        time.sleep(0.002)
        note("END", event)
"""


def kill_server(scene: V3ioScene) -> None:
    """Its data stay."""
    asyncio.run(scene.server._halt(signal.SIGKILL))


def handled_more(scene: V3ioScene, running: Replica) -> None:
    """It has handled something from now on."""
    before = len(scene.runs)
    wait_until(lambda: any(it.replica == running.process.pid for it in scene.runs[before:]), about=running)


def test_a_web_api_that_is_killed_and_comes_back_at_once_costs_nothing(tmp_path: Path) -> None:
    """Sessions outlast it: no record is lost, none runs twice, no commit goes back."""
    with v3io_scene(tmp_path, 8) as scene:
        function = scene.function(replicas=2, group=SLOW_GROUP)
        members = [scene.start(function) for _ in range(2)]
        before = scene.wait_shares([0, 1, 2, 3], [4, 5, 6, 7])
        with watched(scene, 8) as watch, producing(scene, 8, 150):
            for _ in range(3):
                for running in members:
                    handled_more(scene, running)
                asyncio.run(scene.server.restart(kill=True))
            for running in members:
                handled_more(scene, running)
        scene.wait_handled()
        wait_until(lambda: scene.lag() == 0)
        assert [it.member_id for it in scene.sessions()] == [it.member_id for it in before]
        assert not begun_twice(scene.history)
        check_one_owner(scene.history)
        for earlier, later in zip(watch.commits, watch.commits[1:], strict=False):
            assert all(later.offsets[key] >= offset for key, offset in earlier.offsets.items())


@pytest.mark.full
def test_a_web_api_that_is_away_for_longer_than_a_session_stops_the_handlers_meanwhile(
    tmp_path: Path,
) -> None:
    """Members that can't renew their session do nothing after it, not even in a C call; then they go on."""
    with v3io_scene(tmp_path, 4) as scene:
        function = scene.function(replicas=2, handler=HANGS)
        members = [scene.start(function) for _ in range(2)]
        scene.wait_shares([0, 1], [2, 3])
        with producing(scene, 4, 100):
            for running in members:
                handled_more(scene, running)
            pids = [pid for running in members for pid in running.worker_pids()]
            (tmp_path / "hang").touch()
            wait_until(lambda: [it for it in scene.runs if it.partition == 0][-1].record not in scene.ended)
            kill_server(scene)
            wait_until(lambda: not any(map(is_running, pids)), about=members[0])
            (tmp_path / "hang").unlink()
            count = len(scene.runs)
            wait_until(lambda: all("no heartbeat was" in it.get("/ready")[1] for it in members))
            assert len(scene.runs) == count
            asyncio.run(scene.server._launch())
            for running in members:
                handled_more(scene, running)
        scene.wait_handled()
        wait_until(lambda: scene.lag() == 0, about=members[0])
        assert not handled_twice(scene.history)
        assert len(begun_twice(scene.history)) <= 4  # those that their workers were in
        assert [it.stop() for it in members] == [0, 0]

"""Long tasks on a real broker, with real workers: kills, acks that can't be written, tasks that raise."""

from itertools import repeat
from pathlib import Path

import pytest
from broker import Broker
from long_task_scene import Response, Scene, judge, wait_committed
from replica import wait_until
from task_history import Place, committed_unanswered, unanswered

SHORT = {"seconds": 0.02}


def test_a_killed_worker_runs_its_request_again_and_no_other_one(scene: Scene) -> None:
    slow, other, *_ = scene.send({"waits": "go"}, {"waits": "go"}, *repeat(SHORT, 14))
    with scene.pool("--workers", "2") as pool:
        scene.wait_started(other, pool)
        killed = pool.kill_worker_in(scene.places[slow])
        scene.wait_started(slow, pool, times=2)
        (scene.folder / "go").touch()
        scene.wait_answered(16, pool)
        assert len(pool.worker_pids()) == 2  # as many as before
        wait_committed(scene, pool)
        assert pool.stop() == 0
    assert (scene.starts(slow), scene.starts(other)) == (2, 1)
    judge(scene, (killed,))


def test_nothing_is_committed_while_its_response_cannot_be_written(scene: Scene) -> None:
    with scene.pool("--workers", "2") as pool:
        pool.wait_ready()
        scene.set_topic(scene.acks, max_message_bytes="1")  # a broker with one node has no min.insync of two
        sent = scene.send(*repeat(SHORT, 16))
        wait_until(lambda: pool.log.count("can't be written, and is tried again") >= 2 * 5, about=pool)
        assert scene.responses() == []
        assert max(scene.committed().values(), default=0) == 0
        scene.set_topic(scene.acks, max_message_bytes="1000000")
        scene.wait_answered(16, pool)
        wait_committed(scene, pool)
        assert pool.stop() == 0
    assert [it.is_processed for it in scene.responses()] == [True] * len(scene.responses())
    assert sum(map(scene.starts, sent)) <= 16 + 2  # a worker that was in none of the two may run it again
    assert unanswered(scene.answers(), list(scene.places.values())) == []
    assert scene.read(scene.dead_letters) == []


@pytest.mark.full
def test_what_always_fails_is_answered_so_and_moved_and_its_partition_goes_on(scene: Scene) -> None:
    raises, before, behind = scene.send({"raises": "never"}, SHORT, SHORT, partitions=[0])
    (kills,) = scene.send({"kills": True}, partitions=[1])
    expected = {
        Response(scene.keys[raises], raises, False),
        Response(scene.keys[before], before, True),
        Response(scene.keys[behind], behind, True),
        Response(scene.keys[kills], kills, False),
    }
    with scene.pool("--workers", "2") as pool:
        scene.wait_answered(4, pool)
        wait_committed(scene, pool)
        assert pool.stop() == 0
        assert "RuntimeError: never" in pool.log
    assert sorted(scene.responses(), key=repr) == sorted(expected, key=repr)
    assert [scene.starts(sequence) for sequence in (raises, before, behind, kills)] == [3, 1, 1, 3]
    letters = scene.read(scene.dead_letters)
    assert {letter.key for letter in letters} == {scene.keys[raises], scene.keys[kills]}
    assert all(b"has failed 3 times" in dict(letter.headers)["headrace-error"] for letter in letters)


@pytest.mark.full
def test_what_failed_holds_back_every_commit_behind_it(scene: Scene) -> None:
    (failing,) = scene.send({"raises": "never"}, partitions=[0])
    scene.send(*repeat(SHORT, 3), partitions=[0])
    with scene.pool("--workers", "2", **{"onFailure.backoff": "1h", "onFailure.maxBackoff": "1h"}) as pool:
        wait_until(lambda: "is delivered again in" in pool.log, about=pool)
        (others,) = [scene.send(*repeat(SHORT, 4), partitions=[1])]
        scene.wait_answered(4, pool)
        wait_until(lambda: scene.committed().get(1) == 4, about=pool)
        assert scene.committed()[0] == 0
        assert committed_unanswered([*scene.answers(), *scene.commits()], list(scene.places.values())) == []
    with scene.pool("--workers", "2", name="-again") as pool:
        scene.wait_answered(8, pool)
        wait_committed(scene, pool)
        assert pool.stop() == 0
    assert scene.starts(failing) == 3  # attempts outlive the pool
    assert [it.is_processed for it in scene.responses() if it.sequence != failing] == [True] * 7
    assert len(others) == 4


@pytest.mark.full
def test_a_newcomer_takes_tasks_at_once_while_those_that_stay_go_on(broker: Broker, tmp_path: Path) -> None:
    """With groupProtocol consumer. What moves may wait for tasks of the first one that it runs there."""
    scene = Scene(broker, tmp_path, protocol="consumer")
    scene.send(*repeat({"seconds": 5}, 8))
    with scene.pool("--workers", "2", name="-a") as a:
        wait_until(lambda: len(scene.said("start")) == 2, about=a)
        running = {line.split()[2] for line in scene.said("start")}
        with scene.pool("--workers", "1", name="-b") as b:
            b.logged(f"assigned: {scene.requests}")
            scene.wait_answered(8, b)
            wait_committed(scene, b)
            assert (b.stop(), a.stop()) == (0, 0)
    begun = [line.split()[2] for line in scene.said("start")]
    assert len(begun) == 8 + len(scene.said("resumed"))
    assert len(set(begun)) == 8
    assert running <= set(begun)
    assert [it.is_processed for it in scene.responses()] == [True] * 8


def test_a_task_that_runs_when_partitions_come_is_the_only_one_of_its_worker(scene: Scene) -> None:
    slow, *_ = scene.send({"waits": "go"}, *repeat(SHORT, 15))
    with scene.pool(
        "--workers", "1", name="-a", maxWaitHandlerDuringRebalance="1m", rebalanceTimeout="2m"
    ) as a:
        scene.wait_started(slow, a)
        with scene.pool("--workers", "1", name="-b", rebalanceTimeout="2m") as b:
            b.logged("connected to")
            wait_until(lambda: "revoked" in a.log, about=a)
            (scene.folder / "go").touch()
            b.logged("assigned:")
            scene.wait_answered(16, b)
            assert b.stop() == 0  # all of its partitions come to the other one
            sent = scene.send(*repeat(SHORT, 16))
            scene.wait_answered(32, a)
            wait_committed(scene, a)
        assert a.stop() == 0
    assert [scene.starts(it) for it in (slow, *sent)] == [1] * 17
    judge(scene)
    assert scene.places[slow] == Place(0, 0)

"""Requests of very different length; workers as one consumer and as several; what a newcomer takes over."""

import os
import re
import signal
import subprocess
import sys
import time
from itertools import repeat

import pytest
from long_task_scene import Scene, judge, wait_committed
from replica import wait_until
from service_times import service_times
from task_history import committed_unanswered

SHORT = {"seconds": 0.02}
LIMIT_SECONDS = 2.0
"""Session timeout, rebalance timeout, maxProcessingTime: what a task may outlast by any factor."""


def test_times_are_spread_as_they_should_be() -> None:
    times = service_times(400, 0.02, 30, beyond=6)
    assert (min(times), max(times)) == (0.02, 30)
    assert sum(seconds > 6 for seconds in times) == 40


@pytest.mark.full
def test_tasks_of_any_length_are_answered_once_and_nobody_is_evicted(scene: Scene) -> None:
    times = service_times(80, 0.02, 5, beyond=LIMIT_SECONDS)
    assert sum(seconds > LIMIT_SECONDS for seconds in times) == 8
    limits = dict.fromkeys(("sessionTimeout", "rebalanceTimeout", "maxProcessingTime"), f"{LIMIT_SECONDS:g}s")
    with scene.pool("--workers", "2", maxWaitHandlerDuringRebalance="1s", **limits) as pool:
        pool.wait_ready()
        generations = pool.generations()
        scene.send(*({"seconds": seconds} for seconds in times))
        requests = list(scene.places.values())
        while len(scene.said("end")) < 80:
            commits = scene.commits()  # before the answers: one that comes meanwhile counts
            assert committed_unanswered([*scene.answers(), *commits], requests) == []
            assert pool.process.poll() is None, pool.log
            time.sleep(0.5)
        wait_committed(scene, pool)
        assert pool.generations() == generations
        assert len(pool.log_times("assigned:")) == 1
        assert pool.stop() == 0
    assert [scene.starts(sequence) for sequence in scene.places] == [1] * 80
    judge(scene)
    assert all(response.is_processed for response in scene.responses())


@pytest.mark.full
@pytest.mark.parametrize("is_unique", [False, True], ids=["one consumer", "unique consumers"])
def test_workers_have_numbers_of_their_own_and_each_gets_the_arguments(scene: Scene, is_unique: bool) -> None:
    options = ["--unique-consumers"] if is_unique else []
    with scene.pool("--workers", "2", "--argument", "dummy=a value", *options) as pool:
        pool.wait_ready()
        wait_until(lambda: sum(map(len, map(_partitions, pool.triggers()))) == 8, about=pool)
        owned = sorted(len(_partitions(trigger)) for trigger in pool.triggers())
        assert owned == ([4, 4] if is_unique else [8])
        scene.send(*repeat({"waits": "go"}, 8))
        wait_until(lambda: len(scene.said("start")) == 2, about=pool)
        (scene.folder / "go").touch()
        scene.wait_answered(8, pool)
        pids = {worker["pid"] for worker in pool.workers()}
        assert pool.stop() == 0
    started = [line.split(maxsplit=5) for line in scene.said("start")]
    assert {int(pid) for _, _, _, pid, _, _ in started} == pids
    assert len({(pid, number) for _, _, _, pid, number, _ in started}) == 2
    assert {number for _, _, _, _, number, _ in started} == {"0", "1"}
    assert {arguments for *_, arguments in started} == {'{"dummy": "a value"}'}
    judge(scene)


def _partitions(trigger: dict[str, list[object]]) -> list[object]:
    return trigger["partitions"]


@pytest.mark.full
def test_a_newcomer_waits_for_no_task_and_goes_on_where_it_had_come_to(scene: Scene) -> None:
    long, *_ = scene.send(*repeat({"seconds": 8}, 2), partitions=[0, 4])
    with scene.pool("--workers", "2", name="-a", maxWaitHandlerDuringRebalance="1s") as a:
        wait_until(lambda: len(scene.said("start")) == 2, about=a)
        with scene.pool("--workers", "2", name="-b", maxWaitHandlerDuringRebalance="1s") as b:
            b.logged("assigned:")
            assert scene.said("end") == []
            scene.wait_answered(2, b)
            wait_committed(scene, b)
            assert b.stop() == 0
        assert a.stop() == 0
    saved = [int(line.split()[1]) for line in scene.said("saved")]
    resumed = [int(line.split()[1]) for line in scene.said("resumed")]
    assert len(saved) >= 2
    assert sorted(resumed) == sorted(saved)[-2:]
    assert [scene.starts(sequence) for sequence in (long, long + 1)] == [2, 2]
    assert [it.is_processed for it in scene.responses()] == [True, True]
    assert list((scene.folder / "checkpoints").iterdir()) == []


@pytest.mark.full
def test_a_stop_leaves_what_runs_to_the_next_start(scene: Scene) -> None:
    (long,) = scene.send({"seconds": 6}, partitions=[0])
    with scene.pool("--workers", "1", name="-a") as pool:
        scene.wait_started(long, pool)
        pool.process.send_signal(signal.SIGINT)
        assert pool.process.wait(60) == 0
    assert scene.committed().get(0, 0) == 0
    with scene.pool("--workers", "1", name="-b") as pool:
        scene.wait_answered(1, pool)
        assert pool.stop() == 0
    assert len(scene.said("resumed")) == 1


def test_what_a_worker_is_in_and_since_when_is_shown(scene: Scene) -> None:
    (long,) = scene.send({"waits": "go"}, partitions=[3])
    with scene.pool("--workers", "2") as pool:
        scene.wait_started(long, pool)
        wait_until(lambda: pool.worker_in(scene.places[long]), about=pool)
        found = re.findall(r'headrace_running_seconds{.*worker_index="(\d)"} (\S+)', pool.get("/metrics")[1])
        assert sorted(float(seconds) > 0 for _, seconds in found) == [False, True]
        (scene.folder / "go").touch()
        scene.wait_answered(1, pool)


def test_a_missing_variable_ends_the_start_with_one_line(scene: Scene) -> None:
    command = [sys.executable, "-P", "-m", "headrace.functions.long_tasks", "--prefix", "ENGINE_"]
    said = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert said.returncode == 2
    assert said.stderr == (
        "ENGINE_KAFKA_BOOTSTRAP_SERVER, ENGINE_KAFKA_REQUEST_TOPIC, ENGINE_KAFKA_ACK_TOPIC, "
        "ENGINE_KAFKA_CONSUMER_GROUP_ID are not set in the environment, and there is no default\n"
    )

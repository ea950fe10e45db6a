"""`make storm`: functions/long_tasks with tasks of 20 ms to 30 s, of which a tenth outlasts every time limit.

steady      400 of them and two workers: one Response for each, nothing begun twice, no rebalance
kill        workers are killed at random moments: what they were in runs again, and nothing else does
join        a second pool comes: it owns its partitions within 3 s, and goes on from checkpoints of the first
join-consumer  the same where the broker shares partitions out: what stays with the first one goes on
unwritable  no Response can be written for 20 s: nothing is committed, and all are answered afterwards

usage: long_tasks.py [steady|kill|join|join-consumer|unwritable] [--count N] [--seed N]
"""

import asyncio
import itertools
import os
import random
import signal
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Literal

from broker import Broker
from long_task_scene import Pool, Scene, wait_committed
from replica import wait_until
from scenario import Report, main
from service_times import service_times
from task_history import (
    Place,
    answered_twice,
    begun_beside_another,
    begun_twice,
    committed_unanswered,
    out_of_order,
    unanswered,
)

LIMIT_SECONDS = 6.0
LIMITS = dict.fromkeys(("sessionTimeout", "rebalanceTimeout", "maxProcessingTime"), f"{LIMIT_SECONDS:g}s")
REQUESTS = 400
KILLS = 6
AWAY_SECONDS = 20.0


def steady(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """No fault at all but the time that it takes."""
    scene, times = Scene(broker, folder), service_times(REQUESTS, 0.02, 30, beyond=LIMIT_SECONDS)
    with scene.pool("--workers", "2", **LIMITS) as pool:
        generation = _generation(pool)
        scene.send(*({"seconds": seconds} for seconds in times))
        _wait_answered(scene, pool, REQUESTS)
        report.add("rebalances", _generation(pool) - generation, 0, 0, number)
        report.add("exit code", pool.stop(), 0, 0, number)
    _judge(scene, report, number, [])
    longer = sum(seconds > LIMIT_SECONDS for seconds in times)
    report.add_faults("tasks beyond every limit", longer, number, REQUESTS // 10)
    report.add("starts", len(scene.said("start")), REQUESTS, REQUESTS, number)


def kill(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """`kill -9` of workers that are in a task."""
    scene, times = Scene(broker, folder), service_times(80, 0.02, 8, beyond=1)
    killed: list[int] = []
    with scene.pool("--workers", "2", **LIMITS) as pool:
        generation = _generation(pool)
        scene.send(*({"seconds": seconds} for seconds in times))
        struck: Counter[Place] = Counter()
        for _ in range(KILLS):
            time.sleep(random.uniform(0.2, 2))
            killed.append(_strike(pool, killed, struck))
        _wait_answered(scene, pool, 80)
        report.add("rebalances", _generation(pool) - generation, 0, 0, number)
        report.add("exit code", pool.stop(), 0, 0, number)
    report.add_faults("kills", KILLS, number)
    report.add("starts", len(scene.said("start")), 80, 80 + KILLS, number)
    _judge(scene, report, number, killed)


def join(
    protocol: Literal["classic", "consumer"], broker: Broker, folder: Path, number: int, report: Report
) -> None:
    """Eight tasks of 12 s; the newcomer comes at a random moment of the first ones."""
    scene = Scene(broker, folder, protocol=protocol)
    limits = LIMITS if protocol == "classic" else {}
    scene.send(*itertools.repeat({"seconds": 12}, 8))
    with scene.pool("--workers", "2", name="-a", **limits) as first:
        wait_until(lambda: len(scene.said("start")) == 2, about=first)
        time.sleep(random.uniform(0.5, 8))
        with scene.pool("--workers", "1", name="-b", **limits) as second:
            joined = second.logged("connected to")
            assigned = second.logged(f"assigned: {scene.requests}") - joined
            report.add("connection to the assignment, s", assigned, 0, 3, number)
            _wait_answered(scene, second, 8)
            report.add("exit code", second.stop(), 0, 0, number)
        first.stop()
    resumed = [int(line.split()[1]) for line in scene.said("resumed")]
    report.add_faults("joins", 1, number)
    least = 2 if protocol == "classic" else 0  # what runs in partitions that stay is let alone
    report.add("tasks that went on from a checkpoint", len(resumed), least, 8, number)
    twice = len(scene.said("start")) - 8 - len(resumed)
    report.add("tasks begun twice, from their beginning", twice, 0, 0, number)
    requests = list(scene.places.values())
    report.add("requests unanswered", len(unanswered(scene.answers(), requests)), 0, 0, number)
    report.add("requests answered twice", len(answered_twice(scene.answers())), 0, 0, number)


def unwritable(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """The ack topic takes no message; a min.insync.replicas of 2 stops no broker that is alone."""
    scene = Scene(broker, folder)
    with scene.pool("--workers", "2", **LIMITS) as pool:
        pool.wait_ready()
        scene.set_topic(scene.acks, max_message_bytes="1")
        scene.send(*itertools.repeat({"seconds": 0.1}, 40))
        ends = time.monotonic() + AWAY_SECONDS
        highest = 0
        while time.monotonic() < ends:
            highest = max(highest, *scene.committed().values())
            time.sleep(0.5)
        report.add("highest commit meanwhile", highest, 0, 0, number)
        report.add("responses meanwhile", len(scene.responses()), 0, 0, number)
        scene.set_topic(scene.acks, max_message_bytes="1000000")
        _wait_answered(scene, pool, 40)
        report.add("exit code", pool.stop(), 0, 0, number)
    report.add_faults("times without an ack topic", 1, number)
    report.add("not processed", sum(not it.is_processed for it in scene.responses()), 0, 0, number)
    report.add("dead letters", len(scene.read(scene.dead_letters)), 0, 0, number)
    report.add("tasks run again", len(scene.said("start")) - 40, 0, 2, number)


def _generation(pool: Pool) -> int:
    pool.wait_ready()
    (generation,) = pool.generations()
    return generation


def _strike(pool: Pool, killed: list[int], struck: Counter[Place]) -> int:
    """Kill a worker that was in a task when it was looked at; its process id."""
    pid, place = random.choice(wait_until(lambda: _busy(pool, killed, struck), about=pool))
    struck[place] += 1
    os.kill(pid, signal.SIGKILL)
    return pid


def _busy(pool: Pool, killed: list[int], struck: Counter[Place]) -> list[tuple[int, Place]]:
    """Workers that live, and what runs in them: a third death would be the last attempt's."""
    found = [
        (worker["pid"], Place(running["partition"], running["offset"]))
        for worker in pool.workers()
        for running in worker["runningRecords"]
        if worker["pid"] not in killed
    ]
    return [(pid, place) for pid, place in found if struck[place] < 2]


def _wait_answered(scene: Scene, pool: Pool, count: int) -> None:
    """All, and looks meanwhile for a commit that covers what isn't."""
    requests = list(scene.places.values())
    while len(scene.responses()) < count:
        commits = scene.commits()
        assert not committed_unanswered([*scene.answers(), *commits], requests), pool.log
        assert pool.process.poll() is None, pool.log
        time.sleep(1)
    wait_committed(scene, pool)


def _judge(scene: Scene, report: Report, number: int, killed: list[int]) -> None:
    ran, answers = scene.ran(killed), scene.answers()
    keys = {sequence: {key} for sequence, key in scene.keys.items()}
    report.add("requests unanswered", len(unanswered(answers, list(scene.places.values()))), 0, 0, number)
    # A worker may die between the confirmation of its Response and its handler's return.
    report.add("requests answered twice", len(answered_twice(answers)), 0, len(killed), number)
    report.add("requests begun twice beyond kills", len(begun_twice(ran)), 0, 0, number)
    report.add("two at once in a worker", len(begun_beside_another(ran)), 0, 0, number)
    report.add("out of order", len(out_of_order(ran)), 0, 0, number)
    wrong = sum(keys[it] != found for it, found in scene.keys_by_sequence().items())
    report.add("responses with another key", wrong, 0, 0, number)
    report.add("not processed", sum(not it.is_processed for it in scene.responses()), 0, 0, number)


SCENARIOS = {"steady": steady, "kill": kill, "unwritable": unwritable} | {
    "join": partial(join, "classic"),
    "join-consumer": partial(join, "consumer"),
}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))

"""`make storm`: functions/model_metrics, into SQLite and PostgreSQL in turn; each row is compared.

mixed   10,000 messages of all kinds, 10,000 of one key, and a topic that comes while it runs
kill    the replica is killed 20 times amid the load
outage  PostgreSQL is away for 60 s amid the load: nothing is lost, nothing doubled, and nobody rebalances

usage: model_metrics.py [mixed|kill|outage] [--count N] [--seed N]
"""

import asyncio
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from broker import Broker
from model_metrics_scene import Scene, mixed, of_one_key
from postgresql import PostgreSQL, postgresql, programs
from scenario import Report, main

COUNT = 10_000
KILLS = 20
AWAY_SECONDS = 60.0
SOON_SECONDS = 1.0 + 1.0 + 2.0
"""topicRefresh and pollInterval of the scene, and two."""


def both(scenario: Callable[[Scene, int, Report], None]) -> Callable[[Broker, Path, int, Report], None]:
    """Into one database and into the other one, in turn."""

    def of_number(broker: Broker, folder: Path, number: int, report: Report) -> None:
        if number % 2:
            with _server() as server:
                scenario(Scene(broker, server.databases.create(), folder / "f"), number, report)
        else:
            scenario(Scene(broker, f"sqlite:///{folder / 'storm.sqlite'}", folder / "f"), number, report)

    return of_number


@both
def of_all_kinds(scene: Scene, number: int, report: Report) -> None:
    """No fault but those in the messages."""
    iris, prices = scene.topic("iris"), f"{scene.prefix}.ns1.house-price.outputs"
    scene.create(iris)
    scene.create(prices, message_timestamp_type="LogAppendTime")
    scene.send(iris, mixed(COUNT // 2), "iris")
    scene.send(prices, mixed(COUNT // 2), "house-price")
    scene.send(iris, of_one_key(COUNT), "iris")
    with scene.function() as running:
        scene.wait_stored(running)
        began = time.monotonic()
        scene.create(scene.topic("late"))
        scene.send(scene.topic("late"), mixed(10), "late")
        scene.wait_stored(running)
        report.add("rows of a new topic, s", time.monotonic() - began, 0, SOON_SECONDS, number)
        report.add("exit code", running.stop(), 0, 0, number)
    report.add("messages ignored", sum(scene.counts()[1].values()), COUNT // 20, COUNT // 20, number)
    _judge(scene, number, report)


@both
def killed(scene: Scene, number: int, report: Report) -> None:
    """`kill -9` at random moments; what it had read comes again."""
    scene.create(scene.topic("iris"))
    with _load(scene):
        for kills in range(KILLS):
            with scene.function(name=f"-{kills}") as running:
                scene.wait_for_more(running)
                time.sleep(random.uniform(0, 1))
                running.kill()
    report.add_faults("kills", KILLS, number)
    with scene.function(name="-last") as running:
        scene.wait_stored(running.wait_ready())
        report.add("exit code", running.stop(), 0, 0, number)
    _judge(scene, number, report)


def away(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Of PostgreSQL: a file is never away."""
    with _server() as server:
        scene = Scene(broker, server.databases.create(), folder / "f")
        scene.create(scene.topic("iris"))
        with scene.function() as running:
            with _load(scene):
                scene.wait_for_more(running)
                generation = running.trigger()["generation"]
                server.stop()
                time.sleep(AWAY_SECONDS)
                server.start()
                time.sleep(5)
            scene.wait_stored(running)
            report.add_faults("outages of 60 s", 1, number)
            report.add("rebalances", running.trigger()["generation"] - generation, 0, 0, number)
            report.add("exit code", running.stop(), 0, 0, number)
        _judge(scene, number, report)


def _judge(scene: Scene, number: int, report: Report) -> None:
    stored, ignored = scene.counts()
    report.add("produced", len(scene.expected) + scene.ignored.total(), 1, 1e9, number)
    report.add("rows", stored - len(scene.expected), 0, 0, number)
    report.add("rows that differ", len(scene.differences()), 0, 0, number)
    wrong = sum(abs(ignored[it] - scene.ignored[it]) for it in ignored | scene.ignored)
    report.add("ignored messages counted wrongly", wrong, 0, 0, number)


@contextmanager
def _server() -> Iterator[PostgreSQL]:
    where = programs()
    assert where is not None, "there is no PostgreSQL here: apt-get install postgresql"
    with postgresql(where) as server:
        yield server


@contextmanager
def _load(scene: Scene) -> Iterator[None]:
    """Some hundred messages a second, until the block ends."""
    is_over = threading.Event()

    def send() -> None:
        while not is_over.wait(0.2):
            scene.send(scene.topic("iris"), mixed(100), "iris")

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


SCENARIOS = {"mixed": of_all_kinds, "kill": killed, "outage": away}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))

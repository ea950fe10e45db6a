"""The whole way, on a real broker into both databases: storms have the counts and the long outages."""

import os
import signal
from pathlib import Path

import pytest
from broker import Broker
from model_metrics_scene import Scene, mixed, of_one_key
from postgresql import PostgreSQL
from replica import wait_until


def test_each_message_is_a_row_as_it_was_sent_or_is_counted(
    broker: Broker, run_url: str, tmp_path: Path
) -> None:
    scene = Scene(broker, run_url, tmp_path / "f")
    iris, prices = scene.topic("iris"), f"{scene.prefix}.ns1.house-price.outputs"  # both forms
    scene.create(iris)
    scene.create(prices, message_timestamp_type="LogAppendTime")
    others = [f"{scene.prefix}.ns1.{name}" for name in ("pipeline.p.outputs", "model.iris.inputs")]
    others += [f"{scene.prefix}X.ns1.model.iris.outputs", f"{scene.prefix}.ns1.errors.errors"]
    scene.create(*others)
    for topic, model in ((iris, "iris"), (prices, "house-price"), *((other, "") for other in others)):
        scene.send(topic, mixed(600), model)
    scene.send(iris, of_one_key(300), "iris")
    with scene.function() as running:
        scene.wait_stored(running)
        wait_until(lambda: scene.read_topics() >= {iris, prices}, about=running)
        assert running.stop() == 0
    assert scene.differences() == []
    assert scene.counts() == (len(scene.expected), scene.ignored)
    assert set(scene.ignored.values()) == {12}
    assert scene.read_topics() - {f"{scene.group}.feedback"} == {iris, prices}


@pytest.mark.full
def test_topics_come_while_it_runs_and_prefixes_change_at_a_restart(
    broker: Broker, run_url: str, tmp_path: Path
) -> None:
    scene = Scene(broker, run_url, tmp_path / "f")
    scene.create(scene.topic("first"))
    scene.send(scene.topic("first"), mixed(50), "first")
    with scene.function() as running:
        scene.wait_stored(running)
        scene.create(scene.topic("second"))
        scene.send(scene.topic("second"), mixed(50), "second")
        scene.wait_stored(running)
        assert running.stop() == 0
    other = f"acme.{scene.prefix}"
    scene.create(scene.topic("third", other), f"acme-{scene.prefix}.ns1.model.third.outputs")
    scene.send(scene.topic("first"), mixed(50))
    scene.send(f"acme-{scene.prefix}.ns1.model.third.outputs", mixed(50))
    scene.send(scene.topic("third", other), mixed(50), "third")
    with scene.function(name="-again", prefix=other) as running:
        scene.wait_stored(running)
        assert running.trigger()["topics"] == sorted([scene.topic("third", other), f"{scene.group}.feedback"])
        assert running.stop() == 0
    assert scene.differences() == []


def test_kills_lose_nothing_and_store_nothing_twice(broker: Broker, run_url: str, tmp_path: Path) -> None:
    scene = Scene(broker, run_url, tmp_path / "f")
    topic = scene.topic("iris")
    scene.create(topic)
    for number in range(3):
        scene.send(topic, mixed(1000), "iris")
        with scene.function(name=f"-{number}") as running:
            os.kill(wait_until(running.worker_pids, about=running)[0], signal.SIGKILL)
            scene.wait_for_more(running)
            running.kill()
    with scene.function(name="-last") as running:
        scene.wait_stored(running.wait_ready())
        assert running.stop() == 0
    assert scene.differences() == []
    assert scene.counts() == (len(scene.expected), scene.ignored)


@pytest.mark.full
def test_an_outage_of_postgresql_makes_messages_wait(
    broker: Broker, own_server: PostgreSQL, tmp_path: Path
) -> None:
    scene = Scene(broker, own_server.databases.create(), tmp_path / "f")
    topic = scene.topic("iris")
    scene.create(topic)
    scene.send(topic, mixed(500), "iris")
    with scene.function() as running:
        scene.wait_stored(running)
        generation = running.trigger()["generation"]
        own_server.stop()
        scene.send(topic, mixed(500), "iris")
        running.logged("its messages wait")
        own_server.start()
        scene.wait_stored(running)
        assert running.trigger()["generation"] == generation
        assert running.stop() == 0
    assert scene.differences() == []
    assert scene.counts() == (len(scene.expected), scene.ignored)

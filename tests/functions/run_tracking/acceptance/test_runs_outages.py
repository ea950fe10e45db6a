"""When something dies or stands still between a client and what it asked for."""

import asyncio
import json
import signal
import sqlite3
import urllib.error
import urllib.request
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from broker import Broker
from kafka_records import group_offsets
from replica import wait_until
from run_clients import in_thread, log_all
from run_ledgers import RunLedger
from run_tracking_scene import Scene
from topic_ends import is_committed_to_its_end

from headrace.functions.run_tracking.messages.envelopes import encode_event, encode_message
from headrace.functions.run_tracking.messages.items import DeleteRun
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

DIES_ONCE = """
import os, pathlib, signal
from headrace.functions.run_tracking.handler import handler, init_context
from headrace.functions.run_tracking.ingestion import service

own = service._announce

def dies(context, outcome):
    marker = pathlib.Path(__file__).with_name("died")
    if outcome.deleted and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    own(context, outcome)

service._announce = dies
"""
SLOW_CONTROL = """
import time
from headrace.functions.run_tracking.handler import handler, init_context
from headrace.functions.run_tracking.control import service

own = service.read_event

def slow(body):
    time.sleep(0.2)
    return own(body)

service.read_event = slow
"""

AWAY_STORE = """
import pathlib
from headrace.functions.run_tracking.handler import handler, init_context
from headrace.functions.run_tracking.blobs.folder import FolderStore
from headrace.functions.run_tracking.blobs.store import BlobError

own = FolderStore.delete_below

def away(self, prefix):
    here = pathlib.Path(__file__)
    if prefix == "first/" and not here.with_name("back").exists():
        here.with_name("asked").touch()
        raise BlobError("the store is away")
    own(self, prefix)

FolderStore.delete_below = away
"""


@pytest.mark.full
def test_a_control_event_that_can_not_be_done_yet_is_not_passed_over(broker: Broker, tmp_path: Path) -> None:
    """Weakness 2: the next one that succeeded was committed past it."""
    scene = Scene(broker, f"sqlite:///{tmp_path / 'runs.sqlite'}", tmp_path)
    with scene.function(handler=AWAY_STORE, parts=("control",)) as running:
        running.wait_ready()
        for run in ("first", "second"):
            (scene.blobs / run).mkdir()
            (scene.blobs / run / "a").write_bytes(b"1")
            event = encode_event("run_deleted", datetime.now(UTC), run_id=run)
            send(broker, scene.control, event, b"")
        asked = scene.folder / "f" / "asked"
        wait_until(asked.exists, about=running)
        running.kill()
    assert group_offsets(broker, f"{scene.name}.control-workers").get((scene.control, 0), 0) == 0
    assert (scene.blobs / "first" / "a").exists()
    (scene.folder / "f-back").mkdir()
    (scene.folder / "f-back" / "back").touch()
    with scene.function(name="-back", handler=AWAY_STORE, parts=("control",)) as running:
        wait_until(lambda: not (scene.blobs / "second").exists(), about=running)
        assert not (scene.blobs / "first").exists()
        assert running.wait_ready().stop() == 0


@pytest.mark.full
def test_a_crash_between_the_delete_and_its_side_effect_repeats_both(broker: Broker, tmp_path: Path) -> None:
    """(f), weakness 3: the blobs of the run go all the same."""
    scene = Scene(broker, f"sqlite:///{tmp_path / 'runs.sqlite'}", tmp_path)
    run = RunLedger("run", 50, 1)
    with scene.function(handler=DIES_ONCE) as running:
        running.wait_ready()
        asyncio.run(log_all(scene.frontier, [run]))
        scene.wait_finished([run], running)
        assert scene.differences([run]) == []
        send(broker, scene.ingestion, encode_message("run", DeleteRun(), datetime.now(UTC)), b"run")
        wait_until(lambda: not (scene.blobs / "run").exists(), about=running)
        assert (scene.folder / "f" / "died").exists()
        assert scene.run_ids() == set()
        assert running.stop() == 0


@pytest.mark.full
def test_a_backlog_of_control_events_does_not_hold_up_ingestion(broker: Broker, tmp_path: Path) -> None:
    """(h), one way."""
    scene = Scene(broker, f"sqlite:///{tmp_path / 'runs.sqlite'}", tmp_path)
    runs = [RunLedger(f"run{seed}", 100, seed) for seed in range(3)]
    with scene.function(handler=SLOW_CONTROL) as running:
        running.wait_ready()
        event = encode_event("run_archived", datetime.now(UTC), run_id="run")
        asyncio.run(send_all(broker, scene.control, [event] * 2_000))
        asyncio.run(log_all(scene.frontier, runs))
        scene.wait_finished(runs, running)
        assert scene.differences(runs) == []
        assert not is_committed_to_its_end(broker, scene.control, f"{scene.name}.control-workers")


@pytest.mark.full
def test_ingestion_that_waits_for_its_database_does_not_hold_up_control(
    broker: Broker, tmp_path: Path
) -> None:
    """(h), the other way; and what clients are told `ok` meanwhile is stored in the end."""
    database = tmp_path / "runs.sqlite"
    scene = Scene(broker, f"sqlite:///{database}", tmp_path)
    run = RunLedger("run", 100, 1)
    with scene.function() as running:
        running.wait_ready()
        with closing(sqlite3.connect(database, isolation_level=None)) as lock:
            lock.execute("BEGIN IMMEDIATE")
            asyncio.run(log_all(scene.frontier, [run]))
            event = encode_event("run_archived", datetime.now(UTC), run_id="run")
            asyncio.run(send_all(broker, scene.control, [event] * 200))
            group = f"{scene.name}.control-workers"
            wait_until(lambda: is_committed_to_its_end(broker, scene.control, group), about=running)
            assert scene.finished() == set()
            lock.execute("ROLLBACK")
        scene.wait_finished([run], running)
        assert scene.differences([run]) == []
        assert running.stop() == 0


@pytest.mark.full
def test_while_the_broker_is_away_clients_are_told_and_nothing_that_was_ok_is_lost(tmp_path: Path) -> None:
    """(i)."""
    kafka = EmbeddedKafka()
    asyncio.run(kafka.start())
    try:
        scene = Scene(Broker(kafka.bootstrap, "own"), f"sqlite:///{tmp_path / 'runs.sqlite'}", tmp_path)
        runs = [RunLedger(f"run{seed}", 3_000, seed) for seed in range(3)]
        with scene.function() as running:
            running.wait_ready()
            assert ready(scene) == (200, "")
            wait = in_thread(scene.frontier, runs)
            wait_until(scene.run_ids, about=running)
            asyncio.run(kafka._halt(signal.SIGKILL))
            wait_until(lambda: ready(scene)[0] == 503, about=running)
            status, reason = ready(scene)
            assert status == 503
            assert "Kafka has not confirmed" in reason or "can be reached" in reason, reason
            wait_until(
                lambda: 'refused_total{reason="PublishError"}' in said(scene, "metrics"), about=running
            )
            asyncio.run(kafka._launch())
            clients = wait(300)
            scene.wait_finished(runs, running)
            assert any("Kafka" in error for client in clients for error in client.errors)
            assert scene.differences(runs) == []
            wait_until(lambda: ready(scene)[0] == 200, about=running)
    finally:
        kafka.kill()


def said(scene: Scene, path: str) -> str:
    with urllib.request.urlopen(f"{scene.frontier}/{path}", timeout=60) as answer:
        return str(answer.read().decode())


def ready(scene: Scene) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"{scene.frontier}/health/ready/", timeout=60) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())["error"]


def send(broker: Broker, topic: str, value: bytes, key: bytes) -> None:
    async def one() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait(topic, value, key)

    asyncio.run(one())


async def send_all(broker: Broker, topic: str, values: list[bytes]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=5) as producer:
        for value in values:
            await producer.send(topic, value)
        await producer.flush()

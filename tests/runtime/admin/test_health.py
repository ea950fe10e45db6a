"""What probes are told: at a start, of a loop that is stuck, and of what stands still or is away."""

import asyncio
import ctypes
import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from broker import Broker, embedded
from fake_processor import FakeProcessor
from hanging_java import hanging, hanging_java
from kafka_records import produce
from replica import Replica, lines, replica, set_trigger, wait_until, write_function

from headrace.runtime.admin import loop_watchdog
from headrace.runtime.admin.server import admin_server
from headrace.runtime.embedded.ports import free_port
from headrace.runtime.web.addresses import TcpAddress

WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset}")
"""


def ask(url: str, path: str) -> tuple[int, list[str]]:
    """The status, and the problems."""
    try:
        with urllib.request.urlopen(url + path, timeout=20) as answer:
            return answer.status, json.load(answer)["problems"]
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused).get("problems", [])


@pytest.mark.full_but("spark-Spark")
@pytest.mark.parametrize(("step", "doing"), [("broker", "embedded servers"), ("spark", "Spark")])
def test_probes_are_answered_while_servers_start(
    broker: Broker, tmp_path: Path, step: str, doing: str
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, ["t"])
    port = free_port()
    options = ["--embedded-kafka"] if step == "broker" else ["--set", "spark={}"]
    variables = hanging_java(tmp_path, step)
    with replica(folder, "--admin-port", str(port), *options, variables=variables) as running:
        wait_until(lambda: hanging(tmp_path), about=running)
        url = f"http://127.0.0.1:{port}"
        assert ask(url, "/live") == (200, [])
        assert ask(url, "/ready") == (503, [f"starting: {doing}"])
        assert running.stop() == 0


async def test_live_fails_while_the_event_loop_is_stuck_and_says_where(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_watchdog, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(loop_watchdog, "STUCK_SECONDS", 0.3)
    answers: dict[str, tuple[int, list[str]]] = {}
    async with admin_server(FakeProcessor({3}, set()), TcpAddress("127.0.0.1", 0)) as url:
        assert await asyncio.to_thread(ask, url, "/live") == (200, [])
        done = threading.Event()

        def watch() -> None:
            while ask(url, "/live")[0] == 200:
                time.sleep(0.02)
            for path in ("/live", "/ready", "/api/status", "/metrics"):
                answers[path] = ask(url, path)
            done.set()

        watching = threading.Thread(target=watch)
        watching.start()
        _stand_until(done)
        watching.join()
        async with asyncio.timeout(60):
            while (await asyncio.to_thread(ask, url, "/live"))[0] != 200:
                await asyncio.sleep(0.02)
        assert await asyncio.to_thread(ask, url, "/ready") == (200, [])
    assert {path: status for path, (status, _) in answers.items()} == dict.fromkeys(answers, 503)
    for path in ("/live", "/ready"):
        (problem,) = answers[path][1]
        assert problem.startswith("the event loop has not turned for ")
        assert "_stand_until" in problem or "wait" in problem


def _stand_until(done: threading.Event) -> None:
    """Blocks the event loop: what the test is about."""
    assert done.wait(60)


async def test_a_process_that_was_stopped_is_not_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watchdog, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(loop_watchdog, "STUCK_SECONDS", 0.3)
    async with admin_server(FakeProcessor({3}, set()), TcpAddress("127.0.0.1", 0)) as url:
        ctypes.PyDLL(None).usleep(
            900_000
        )  # with the interpreter held no thread turns, as in a stopped process
        assert await asyncio.to_thread(ask, url, "/live") == (200, [])


def test_a_replica_without_a_partition_is_not_ready(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create_topic(1)
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    with replica(folder, name="-a") as first:
        first.wait_ready()
        with replica(folder, name="-b") as second:
            wait_until(lambda: "it stands by" in second.get("/ready")[1] + first.get("/ready")[1])
            (idle,) = [it for it in (first, second) if "it stands by" in it.get("/ready")[1]]
            (busy,) = [it for it in (first, second) if it is not idle]
            busy.wait_ready()
            line = "records: no partition is assigned to this replica: it stands by"
            assert ask(idle.url, "/ready") == (503, [line])
            assert busy.stop() == 0
            idle.wait_ready()


@pytest.mark.full
def test_replicas_of_one_machine_are_ready_while_one_of_them_stands_by(
    broker: Broker, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [broker.create_topic(1)])
    with replica(folder, "--replicas", "2") as running:
        running.wait_ready()
        rows = [len(trigger["partitions"]) for trigger in running.triggers()]
        assert sorted(rows) == [0, 1]
        assert "it stands by" in str(running.status())
        assert running.stop() == 0


def test_a_partition_that_waits_too_long_for_acks_is_not_ready(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create_topic(1)
    folder = write_function(
        tmp_path / "f",
        WRITES,
        broker.bootstrap,
        [topic],
        workerAllocationMode="static",
        channelBufferSize=4,
        maxProcessingTime="2s",
    )
    set_trigger(folder, explicitAckMode="explicitOnly")
    produce(broker, topic, 20, 1)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 4, about=running)
        wait_until(lambda: "longer than maxProcessingTime" in running.get("/ready")[1], about=running)
        (problem,) = ask(running.url, "/ready")[1]
    assert f"{topic}/0 has stood for " in problem
    assert "channelBufferSize is reached" in problem


@contextmanager
def _frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.full
def test_a_broker_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with embedded(records=2) as kafka:
        folder = write_function(
            tmp_path / "f", WRITES, kafka.bootstrap, ["records"], sessionTimeout="2s", rebalanceRetryMax=9
        )
        with replica(folder) as running:
            running.wait_ready()
            assert kafka.pid
            with _frozen(kafka.pid):
                _says(running, f"{kafka.bootstrap} has not answered about the group for ")
                assert ask(running.url, "/live") == (200, [])
            running.wait_ready()
    with replica(folder, name="-alone") as running:
        _says(running, f"no broker answers at {kafka.bootstrap}")


def _says(running: Replica, text: str) -> None:
    wait_until(lambda: text in running.get("/ready")[1], 60, about=running)

"""The acceptance scenario, scaled down: real clients, broker, processes, databases, files.

Letters as in the brief; `make storm-run_tracking-...` has the full counts.
"""

import asyncio
import json
import os
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiokafka import AIOKafkaProducer
from broker import Broker
from replica import Replica, wait_until
from run_clients import RunClient, in_thread, log_all
from run_ledgers import RunLedger
from run_tracking_scene import Scene
from topic_ends import values

RUNS, METRICS = 6, 200


def ledgers(count: int = RUNS, metrics: int = METRICS, prefix: str = "run") -> list[RunLedger]:
    return [RunLedger(f"{prefix}{seed}", metrics, seed) for seed in range(count)]


@pytest.fixture
def scene(broker: Broker, run_url: str, tmp_path: Path) -> Scene:
    """Into both databases."""
    return Scene(broker, run_url, tmp_path)


@pytest.fixture
def on_sqlite(broker: Broker, tmp_path: Path) -> Scene:
    return Scene(broker, f"sqlite:///{tmp_path / 'runs.sqlite'}", tmp_path)


def ask(url: str, method: str = "GET", body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


@pytest.mark.full
def test_what_clients_have_been_told_ok_is_stored(scene: Scene) -> None:
    """(a), (b), (c): runs at once, each item once, in order, nested right, ended, with its artifacts."""
    runs = ledgers()
    with scene.function() as running:
        running.wait_ready()
        clients = asyncio.run(log_all(scene.frontier, runs))
        scene.wait_finished(runs, running)
        assert scene.differences(runs) == []
        assert [error for client in clients for error in client.errors] == []
        for run in runs:
            status, info = ask(f"{scene.backend}/api/v1/rest/runs/{run.run_id}/info/")
            assert (status, info["params"], info["props"]["active"]) == (200, run.expected.attrs, False)
            assert {it["path"] for it in info["artifacts"]} == set(run.expected.artifacts)
        path = next(iter(run.expected.artifacts))
        download = f"{scene.backend}/api/v1/rest/runs/{run.run_id}/artifacts/download/?path={path}"
        with urllib.request.urlopen(download, timeout=60) as answer:
            assert answer.read() == run.expected.artifacts[path]
        assert running.stop() == 0


@pytest.mark.full
def test_workers_that_are_killed_and_replicas_that_come_and_go_change_nothing(scene: Scene) -> None:
    """(d)."""
    runs = ledgers(metrics=400)
    with (
        scene.function(parts=("frontier", "control")) as front,
        scene.function(name="-a", parts=("ingestion",)) as one,
    ):
        front.wait_ready()
        one.wait_ready()
        wait = in_thread(scene.frontier, runs)
        kill_a_worker(one)
        with scene.function(name="-b", parts=("ingestion",)) as two:
            two.wait_ready()
            kill_a_worker(two)
            kill_a_worker(one)
            two.kill()
        wait(300)
        scene.wait_finished(runs, one)
        assert scene.differences(runs) == []
        assert front.stop() == 0


def kill_a_worker(running: Replica) -> None:
    (victim, *_) = running.worker_pids()
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in running.worker_pids() and running.worker_pids(), about=running)


@pytest.mark.full
def test_a_run_that_is_deleted_amid_its_stream_stays_deleted(on_sqlite: Scene) -> None:
    """(e): its tombstone wins, its blobs go, and other runs are not touched."""
    scene, runs = on_sqlite, ledgers(3)
    gone = runs[0]
    with scene.function() as running:
        running.wait_ready()
        asyncio.run(_log_and_delete(scene, runs, gone))
        others = runs[1:]
        scene.wait_finished(others, running)
        wait_until(lambda: not (scene.blobs / gone.run_id).exists(), about=running)
        wait_until(scene.is_idle, about=running)
        assert scene.run_ids() == {run.run_id for run in others}
        assert scene.differences(others) == []
        assert ask(f"{scene.backend}/api/v1/rest/runs/{gone.run_id}/info/")[0] == 404
        assert running.stop() == 0


async def _log_and_delete(scene: Scene, runs: list[RunLedger], gone: RunLedger) -> None:
    """Half of it, then the delete, then the rest, artifacts included, while the others go on."""
    halves = RunLedger(gone.run_id, METRICS, 0), RunLedger(gone.run_id, METRICS, 0)
    middle = len(gone.items) // 2
    halves[0].items, halves[1].items = gone.items[:middle], gone.items[middle:]
    others = asyncio.create_task(log_all(scene.frontier, runs[1:]))
    await log_all(scene.frontier, halves[:1])
    await asyncio.to_thread(wait_until, lambda: gone.run_id in scene.run_ids())
    url = f"{scene.backend}/api/v1/rest/runs/{gone.run_id}/"
    assert await asyncio.to_thread(ask, url, "DELETE") == (200, {"id": gone.run_id, "status": "OK"})
    await log_all(scene.frontier, halves[1:])
    await others


@pytest.mark.full
def test_what_is_no_message_harms_nobody(on_sqlite: Scene) -> None:
    """(g), weaknesses 6 and 7: frames get an error and publish nothing, messages become dead letters."""
    scene, (run,) = on_sqlite, ledgers(1)
    with scene.function() as running:
        running.wait_ready()
        errors = asyncio.run(_malformed(scene, run))
        assert all(reply["status"] == "error" and reply["error"] for reply in errors), errors
        poison = (b"\xff\xfe", b"{}", b'{"type":"log_metric"}')
        unknown = json.dumps(
            {"type": "no_such", "run_id": "r", "timestamp": "2026-05-01T12:00:00Z", "payload": {}}
        )
        null = json.dumps(
            {
                "type": "log_metric",
                "run_id": "r",
                "timestamp": "2026-05-01T12:00:00Z",
                "payload": {"name": None},
            }
        )
        for value in (*poison, unknown.encode(), null.encode(), None):
            produce(scene, value, key=run.run_id.encode())
        asyncio.run(log_all(scene.frontier, [run]))
        scene.wait_finished([run], running)
        assert scene.differences([run]) == []
        wait_until(lambda: len(values(scene.broker, f"{scene.ingestion}.dlq")) == 5, about=running)
        assert "a message of a type that nobody knows: it is skipped" in running.log
        assert scene.run_ids() == {run.run_id}
        assert running.stop() == 0


@pytest.mark.full
def test_an_address_for_an_artifact_is_no_artifact(on_sqlite: Scene) -> None:
    """Weakness 9: it is one once its client has said that the bytes are there."""
    scene, (run,) = on_sqlite, ledgers(1)
    run.items = [item for item in run.items if not isinstance(item, str)]
    run.expected.artifacts.clear()
    with scene.function() as running:
        running.wait_ready()
        body = {"run_id": run.run_id, "artifact_path": "a.bin", "content_type": "a/b"}
        status, said = ask(f"{scene.frontier}/api/v1/rest/artifacts/presign", "POST", body)
        assert (status, said["s3_key"]) == (200, f"{run.run_id}/a.bin")
        asyncio.run(log_all(scene.frontier, [run]))
        scene.wait_finished([run], running)
        assert scene.differences([run]) == []
        assert running.stop() == 0


async def _malformed(scene: Scene, run: RunLedger) -> list[dict[str, Any]]:
    good = {"type": "log_terminal_line", "line": "never", "step": 999_999}
    frames = [
        "no json",
        json.dumps([good, {"type": "no_such"}]),
        json.dumps([good, {"type": "log_metric", "name": None, "value": 1, "step": 1}]),
        json.dumps([good, {"type": "log_metric", "name": "x", "value": "one", "step": 1}]),
        json.dumps([good, {"type": "delete_run"}]),
        json.dumps([good, {"type": "blob_ref", "artifact_path": "a", "s3_key": "another-run/a"}]),
        json.dumps([good, {"type": "log_terminal_line", "line": "x" * 5_000_000, "step": 1}]),
        "[" * 100_000,
    ]
    async with aiohttp.ClientSession() as session:
        client = RunClient(session, scene.frontier, run)
        return [await client.ask(frame) for frame in frames]


def produce(scene: Scene, value: bytes | None, key: bytes) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=scene.broker.bootstrap) as producer:
            await producer.send_and_wait(scene.ingestion, value, key)

    asyncio.run(send())

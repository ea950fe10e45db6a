"""`make bench-run-tracking`: metrics a second from WebSockets into each database of run_tracking.

All of it on this machine: clients, frontier, broker, ingestion, database. Each client awaits the reply to its
frame of 100 before it sends the next one, as published clients do.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import sqlalchemy as sa

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from broker import Broker, embedded
from postgresql import database
from run_tracking_scene import Scene

from headrace.functions.run_tracking.store.tables import SEQUENCES

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
COUNT = int(os.environ.get("BENCH_RECORDS", "300000"))
CLIENTS = 8
FRAME = 100
TARGET = 20_000


def main() -> int:
    """1 where neither database is as fast as the target."""
    held = False
    with embedded() as kafka:
        for _ in range(ROUNDS):
            for kind in ("sqlite", "postgresql"):
                with database(kind) as url, tempfile.TemporaryDirectory() as folder:
                    answered, stored = measure(Scene(Broker(kafka.bootstrap, "embedded"), url, Path(folder)))
                held |= stored >= TARGET
                print(
                    f"{kind:11} {answered:8,.0f} answered/s {stored:8,.0f} stored/s   target {TARGET:,}",
                    flush=True,
                )
    return 0 if held else 1


def measure(scene: Scene) -> tuple[float, float]:
    """Metrics a second that were answered, and those that were stored, from the first frame on."""
    with scene.function() as running:
        running.wait_ready()
        began = time.monotonic()
        asyncio.run(send(scene.frontier))
        answered = time.monotonic()
        while count(scene) < COUNT:
            time.sleep(0.05)
        stored = time.monotonic()
        assert running.stop() == 0
    return COUNT / (answered - began), COUNT / (stored - began)


async def send(url: str) -> None:
    """From all clients at once."""
    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(client(session, url, f"run{number}") for number in range(CLIENTS)))


async def client(session: aiohttp.ClientSession, url: str, run_id: str) -> None:
    """Frame after frame."""
    async with session.ws_connect(f"{url}/api/v1/ws/runs/{run_id}") as socket:
        for start in range(0, COUNT // CLIENTS, FRAME):
            await socket.send_str(json.dumps([metric(step) for step in range(start, start + FRAME)]))
            reply = await socket.receive_json()
            assert reply["status"] == "ok", reply


def metric(step: int) -> dict[str, object]:
    """As the published client writes one."""
    return {
        "type": "log_metric",
        "name": "loss",
        "value": 1 / (step + 1),
        "step": step,
        "epoch": None,
        "context": {"subset": "train"},
        "dtype": "float",
        "client_datetime": "2026-05-01T12:00:00.123456+00:00",
    }


def count(scene: Scene) -> int:
    """Metrics that are stored."""
    with scene.connection() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(SEQUENCES)).scalar_one()


if __name__ == "__main__":
    sys.exit(main())

"""`make storm`: functions/run_tracking, into SQLite and PostgreSQL in turn; all that is stored is compared.

load     50 clients at once, a run each: 2,000 metrics with all that goes with them, 3 artifacts
kill     the same, while a worker of the ingestion is killed every 3 s, and replicas go from 1 to 6 to 2
delete   the same, and every fifth run is deleted amid its stream
backlog  control events that take ten minutes: what clients say meanwhile is stored as soon as ever
outage   the broker is away for 30 s amid the load: clients are told, and what was `ok` is stored

usage: run_tracking.py [load|kill|delete|backlog|outage] [--count N] [--seed N]
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from aiokafka import AIOKafkaProducer
from broker import Broker
from postgresql import database
from replica import Replica, wait_until
from run_clients import in_thread, log_all
from run_ledgers import RunLedger
from run_tracking_scene import Scene
from scenario import Report, main

from headrace.functions.run_tracking.messages.envelopes import encode_event, encode_message
from headrace.functions.run_tracking.messages.items import DeleteRun
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

CLIENTS, METRICS = 50, 2_000
KINDS = ("sqlite", "postgresql")
PAUSE_SECONDS = 0.2
KILL_EVERY_SECONDS = 3.0
BACKLOG_SECONDS = 600.0
SLOW_SECONDS = 0.3
SOON_SECONDS = 5.0
AWAY_SECONDS = 30.0
PATIENCE_SECONDS = 900.0
SLOW_CONTROL = f"""
import time
from headrace.functions.run_tracking.handler import handler, init_context
from headrace.functions.run_tracking.control import service

own = service.read_event

def slow(body):
    time.sleep({SLOW_SECONDS})
    return own(body)

service.read_event = slow
"""


def both(scenario: Callable[[Scene, int, Report], None]) -> Callable[[Broker, Path, int, Report], None]:
    """Into one database and into the other one, in turn."""

    def of_number(broker: Broker, folder: Path, number: int, report: Report) -> None:
        with database(KINDS[number % 2]) as url:
            scenario(Scene(broker, url, folder), number, report)

    return of_number


def runs(number: int) -> list[RunLedger]:
    """Of so many clients."""
    return [RunLedger(f"run{at}", METRICS, number * 1000 + at) for at in range(CLIENTS)]


@both
def load(scene: Scene, number: int, report: Report) -> None:
    """No fault at all."""
    ledgers = runs(number)
    with scene.function() as running:
        running.wait_ready()
        began = time.monotonic()
        clients = asyncio.run(log_all(scene.frontier, ledgers, number))
        scene.wait_finished(ledgers, running, PATIENCE_SECONDS)
        items = sum(client.answered for client in clients)
        report.add("items a second, all stored", items / (time.monotonic() - began), 0, 1e9, number)
        report.add("items", items, 1, 1e9, number)
        report.add("errors", sum(len(client.errors) for client in clients), 0, 0, number)
        report.add("exit code", running.stop(), 0, 0, number)
    judge(scene, ledgers, number, report)


@both
def kill(scene: Scene, number: int, report: Report) -> None:
    """Of workers, and of whole replicas."""
    ledgers = runs(number)
    with scene.function(parts=("frontier", "control", "backend")) as front, ExitStack() as replicas:
        ingesting = [replicas.enter_context(ingestion(scene, 0)).wait_ready()]
        front.wait_ready()
        wait = in_thread(scene.frontier, ledgers, number, PAUSE_SECONDS)
        kills = 0
        for wanted in (1, 6, 6, 2, 2):
            while len(ingesting) < wanted:
                ingesting.append(replicas.enter_context(ingestion(scene, len(ingesting))))
            while len(ingesting) > wanted:
                ingesting.pop().kill()
            for _ in range(3):
                time.sleep(KILL_EVERY_SECONDS)
                kills += kill_a_worker(random.choice(ingesting))
        clients = wait(PATIENCE_SECONDS)
        scene.wait_finished(ledgers, ingesting[0], PATIENCE_SECONDS)
        report.add_faults("kills of workers", kills, number)
        report.add_faults("kills of replicas", 4, number)
        report.add("items", sum(client.answered for client in clients), 1, 1e9, number)
        report.add("exit code", front.stop(), 0, 0, number)
    judge(scene, ledgers, number, report)


@contextmanager
def ingestion(scene: Scene, number: int) -> Iterator[Replica]:
    """One more replica, of one worker."""
    options = ("--set", "triggers.ingestion.numWorkers=1")
    with scene.function(*options, name=f"-{number}", parts=("ingestion",)) as running:
        yield running


def kill_a_worker(running: Replica) -> int:
    """How many: none where it has none yet."""
    with suppress(OSError, ValueError, KeyError, ProcessLookupError):
        for pid in running.worker_pids():
            os.kill(pid, signal.SIGKILL)
            return 1
    return 0


@both
def delete(scene: Scene, number: int, report: Report) -> None:
    """By the message that the backend publishes, amid the run's own."""
    ledgers = runs(number)
    gone, living = ledgers[::5], [it for at, it in enumerate(ledgers) if at % 5]
    with scene.function() as running:
        running.wait_ready()
        wait = in_thread(scene.frontier, ledgers, number, PAUSE_SECONDS / 4)
        wait_until(lambda: scene.run_ids() >= {it.run_id for it in gone}, about=running)
        ends = [(encode_message(it.run_id, DeleteRun(), datetime.now(UTC)), it.run_id) for it in gone]
        asyncio.run(send(scene.broker, scene.ingestion, ends))
        wait(PATIENCE_SECONDS)
        scene.wait_finished(living, running, PATIENCE_SECONDS)
        wait_until(scene.is_idle, PATIENCE_SECONDS, about=running)
        report.add_faults("deletes", len(gone), number)
        ghosts = scene.run_ids() - {it.run_id for it in living}
        report.add("ghost runs", len(ghosts), 0, 0, number)
        left = [path for it in gone for path in (scene.blobs / it.run_id).rglob("*.bin")]
        report.add("blobs left of them", len(left), 0, 0, number)
        report.add("exit code", running.stop(), 0, 0, number)
    judge(scene, living, number, report)


def backlog(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Ten minutes of it."""
    with database(KINDS[number % 2]) as url:
        scene = Scene(broker, url, folder)
        with scene.function(handler=SLOW_CONTROL) as running:
            running.wait_ready()
            event = encode_event("run_archived", datetime.now(UTC), run_id="run")
            events = round(BACKLOG_SECONDS / SLOW_SECONDS)
            asyncio.run(send(broker, scene.control, [(event, "run")] * events))
            ledgers: list[RunLedger] = []
            ends = time.monotonic() + BACKLOG_SECONDS - 10
            while time.monotonic() < ends:
                run = RunLedger(f"run{len(ledgers)}", 100, len(ledgers))
                ledgers.append(run)
                asyncio.run(log_all(scene.frontier, [run]))
                answered = time.monotonic()
                scene.wait_finished([run], running)
                report.add("answered, then stored, s", time.monotonic() - answered, 0, SOON_SECONDS, number)
                time.sleep(1)
            report.add("control events that wait still", not scene.is_idle(), 1, 1, number)
        judge(scene, ledgers, number, report)


def outage(_: Broker, folder: Path, number: int, report: Report) -> None:
    """Of a broker of its own."""
    kafka = EmbeddedKafka()
    asyncio.run(kafka.start())
    try:
        with database(KINDS[number % 2]) as url:
            scene = Scene(Broker(kafka.bootstrap, "own"), url, folder)
            ledgers = runs(number)
            with scene.function() as running:
                running.wait_ready()
                wait = in_thread(scene.frontier, ledgers, number, PAUSE_SECONDS)
                wait_until(scene.run_ids, about=running)
                asyncio.run(kafka._halt(signal.SIGKILL))
                time.sleep(AWAY_SECONDS)
                asyncio.run(kafka._launch())
                clients = wait(PATIENCE_SECONDS)
                scene.wait_finished(ledgers, running, PATIENCE_SECONDS)
                report.add_faults("outages of 30 s", 1, number)
                told = sum("Kafka" in error for client in clients for error in client.errors)
                report.add("clients told that Kafka is away", told, 1, 1e9, number)
                report.add("exit code", running.stop(), 0, 0, number)
            judge(scene, ledgers, number, report)
    finally:
        kafka.kill()


def judge(scene: Scene, ledgers: list[RunLedger], number: int, report: Report) -> None:
    """Against what the clients have said."""
    differences = scene.differences(ledgers)
    for line in differences[:5]:
        print(f"  {line}", flush=True)
    report.add("fields of runs that differ", len(differences), 0, 0, number)
    metrics = sum(len(it.expected.metrics) for it in ledgers)
    report.add("metrics compared", metrics, 1, 1e9, number)


async def send(broker: Broker, topic: str, messages: list[tuple[bytes, str]]) -> None:
    """Values, with their keys."""
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=5) as producer:
        for value, key in messages:
            await producer.send(topic, value, key.encode())
        await producer.flush()


SCENARIOS = {"load": load, "kill": kill, "delete": delete, "backlog": backlog, "outage": outage}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))

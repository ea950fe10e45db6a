"""functions/long_tasks as people run it: pools started by its command, requests sent, responses read."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import second_decoder
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from broker import Broker
from kafka_records import group_offsets
from replica import Replica, environment, lines, wait_until
from task_history import (
    Happened,
    Place,
    answered_twice,
    begun_beside_another,
    begun_twice,
    out_of_order,
    unanswered,
)

from headrace.functions.long_tasks.communication_pb2 import Request

# The payload says what to do, in JSON. Each start and end is a line of a file that all workers append to.
TASK = '''
import json, os, pathlib, signal, time
FOLDER = pathlib.Path(__file__).parent
log = open(FOLDER / "tasks", "a", buffering=1)

def work(request, progress, *, worker_number, **arguments):
    said = json.loads(request.payload)
    who = f"{request.sequence} {os.getpid()} {worker_number}"
    log.write(f"start {time.time()} {who} {json.dumps(arguments)}\\n")
    if said.get("kills"):
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        if said.get("raises"):
            raise RuntimeError(said["raises"])
        run(said, progress)
    finally:
        log.write(f"end {time.time()} {who}\\n")

def run(said, progress):
    """CPU-bound, in steps of 10 ms. Saves the number of steps when it is asked to."""
    first = int(progress.saved or 0)
    for step in range(first, round(100 * said.get("seconds", 0))):
        if progress.should_save:
            progress.save(b"%d" % step)
            log.write(f"saved {step}\\n")
        end = time.monotonic() + 0.01
        while time.monotonic() < end:
            sum(range(100))
    while (name := said.get("waits")) and not (FOLDER / name).exists():
        time.sleep(0.005)
    if first:
        log.write(f"resumed {first}\\n")
'''
QUICK = {
    "sessionTimeout": "3s",
    "heartbeatInterval": "200ms",
    "rebalanceTimeout": "3s",
    "maxProcessingTime": "3s",
    "onFailure.backoff": "100ms",
}


@dataclass(frozen=True, slots=True)
class Response:
    """One of the ack topic, by the second decoder."""

    key: bytes | None
    sequence: int
    is_processed: bool


class Pool(Replica):
    """`python -m headrace.functions.long_tasks` with a task of the scene's, and its admin server."""

    def __init__(self, scene: "Scene", name: str, *options: str, **attributes: str) -> None:
        self.log_path = scene.folder / f"pool{name}.txt"
        program = [sys.executable, "-P", "-m", "headrace.functions.long_tasks"]
        spec = "triggers.requests.attributes"
        quick = QUICK if scene.protocol == "classic" else {}  # with consumer the broker decides
        changed = (f"{spec}.{key}={value}" for key, value in (quick | attributes).items())
        sets = [word for text in changed for word in ("--set", text)]
        command = [*program, "--task", "tasks:work", *options, "--", "--admin-port", "0", *sets]
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=scene.environment(),
            )

    def workers(self) -> list[dict[str, Any]]:
        return [worker for trigger in self.triggers() for worker in trigger["workers"]]

    def worker_in(self, place: Place) -> int | None:
        """The process that runs it, as /api/status says."""
        for worker in self.workers():
            for running in worker["runningRecords"]:
                if (running["partition"], running["offset"]) == place:
                    return int(worker["pid"])
        return None

    def generations(self) -> list[int]:
        return [trigger["generation"] for trigger in self.triggers()]

    def kill_worker_in(self, place: Place) -> int:
        """`kill -9`, once it is in it. Its process id."""
        pid = wait_until(lambda: self.worker_in(place), about=self)
        os.kill(pid, signal.SIGKILL)
        return pid


class Scene:
    """Topics of one's own at a broker, a group, and a folder with the task and what it writes."""

    def __init__(
        self,
        broker: Broker,
        folder: Path,
        partitions: int = 8,
        protocol: Literal["classic", "consumer"] = "classic",
    ) -> None:
        self.broker = broker
        self.protocol = protocol
        self.folder = folder
        self.requests = broker.create_topic(partitions)
        self.acks = broker.create_topic(2)
        self.dead_letters = f"{self.requests}.dlq"
        broker.create(self.dead_letters, 1)
        self.group = f"group-{self.requests}"
        self.places: dict[int, Place] = {}
        self.keys: dict[int, bytes] = {}
        folder.mkdir(exist_ok=True, parents=True)
        (folder / "tasks.py").write_text(TASK)

    def variables(self) -> dict[str, str]:
        """The four."""
        return {
            "kafka_bootstrap_server": self.broker.bootstrap,  # in whatever case
            "KAFKA_REQUEST_TOPIC": self.requests,
            "KAFKA_ACK_TOPIC": self.acks,
            "KAFKA_CONSUMER_GROUP_ID": self.group,
            "KAFKA_GROUP_PROTOCOL": self.protocol,
        }

    def environment(self) -> dict[str, str]:
        """With these, where checkpoints go, and where the task is."""
        places = {"TASK_CHECKPOINTS": str(self.folder / "checkpoints"), "PYTHONPATH": str(self.folder)}
        return environment(**self.variables(), **places)

    @contextmanager
    def pool(self, *options: str, name: str = "", **attributes: str) -> Iterator[Pool]:
        """A running one, killed in the end."""
        running = Pool(self, name, *options, **attributes)
        try:
            yield running
        finally:
            running.kill()

    # ---- requests

    def send(self, *payloads: object, partitions: Sequence[int] = ()) -> list[int]:
        """One for each payload, to these partitions in turn; their sequences."""
        return asyncio.run(self._send(payloads, partitions or range(8)))

    async def _send(self, payloads: Sequence[object], partitions: Sequence[int]) -> list[int]:
        first = len(self.places)
        async with AIOKafkaProducer(bootstrap_servers=self.broker.bootstrap, linger_ms=5) as producer:
            for sequence, payload in enumerate(payloads, first):
                value = Request(sequence=sequence, payload=json.dumps(payload)).SerializeToString()
                key = self.keys[sequence] = uuid.uuid4().bytes  # no text
                number = partitions[(sequence - first) % len(partitions)]
                sent = await producer.send_and_wait(self.requests, value, key, partition=number)
                self.places[sequence] = Place(number, sent.offset)
        return list(range(first, first + len(payloads)))

    # ---- what has come of them

    def read(self, topic: str) -> list[Any]:
        """All records of it, as far as it goes now."""
        return asyncio.run(self._read(topic))

    async def _read(self, topic: str) -> list[Any]:
        found: list[Any] = []
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=self.broker.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            ends = await consumer.end_offsets(consumer.assignment())
            while any([await consumer.position(it) < end for it, end in ends.items()]):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += records
        return found

    def responses(self) -> list[Response]:
        """So far."""
        return [Response(it.key, *second_decoder.response(it.value)) for it in self.read(self.acks)]

    def wait_answered(self, count: int, about: Replica, seconds: float = 300) -> None:
        """Until there are so many responses."""
        deadline = time.monotonic() + seconds
        while len(self.responses()) < count:
            assert time.monotonic() < deadline, about.log
            assert about.process.poll() is None, about.log
            time.sleep(0.2)

    def wait_started(self, sequence: int, about: Replica, times: int = 1) -> None:
        """Until its task has begun so often."""
        wait_until(lambda: self.starts(sequence) >= times, about=about)

    def starts(self, sequence: int) -> int:
        """How often its task has begun."""
        return sum(line.split()[2] == str(sequence) for line in self.said("start"))

    def said(self, what: str) -> list[str]:
        """Lines of tasks that begin so."""
        return [line for line in lines(self.folder, "tasks") if line.startswith(f"{what} ")]

    def committed(self) -> dict[int, int]:
        """By partition, as the broker has it."""
        offsets = group_offsets(self.broker, self.group)
        return {number: offset for (topic, number), offset in offsets.items() if topic == self.requests}

    def commits(self) -> list[Happened]:
        """The same, for a history."""
        return [Happened("commit", place=Place(*it)) for it in self.committed().items()]

    def answers(self) -> list[Happened]:
        """The responses so far, for a history."""
        return [Happened("answer", place=self.places[it.sequence]) for it in self.responses()]

    def ran(self, killed: Sequence[int] = ()) -> list[Happened]:
        """Starts and ends by worker processes, in order of time. A kill is where the process says no more."""
        last = {int(line.split()[3]): at for at, line in enumerate(self._lines()) if "saved" not in line}
        history = []
        for at, line in enumerate(self._lines()):
            what, _, sequence, pid, *_ = line.split()
            history.append(Happened(what, int(pid), self.places[int(sequence)]))  # type: ignore[arg-type]  # its word
            if int(pid) in killed and last[int(pid)] == at:
                history.append(Happened("kill", int(pid)))
        return history

    def _lines(self) -> list[str]:
        return [line for line in lines(self.folder, "tasks") if line.startswith(("start ", "end "))]

    def keys_by_sequence(self) -> dict[int, set[bytes | None]]:
        """Of the responses."""
        found: dict[int, set[bytes | None]] = defaultdict(set)
        for it in self.responses():
            found[it.sequence].add(it.key)
        return dict(found)

    def set_topic(self, topic: str, **configs: str) -> None:
        """A topic's settings at the broker, with dots for underscores."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        asyncio.run(_alter(self.broker.bootstrap, topic, named))


async def _alter(bootstrap: str, topic: str, configs: dict[str, str]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])
    finally:
        await admin.close()


def judge(scene: Scene, killed: tuple[int, ...] = ()) -> None:
    """What holds after every run: each is answered, once, and nothing ran beside or before its turn."""
    ran, answers, requests = scene.ran(killed), scene.answers(), list(scene.places.values())
    assert unanswered(answers, requests) == []
    assert answered_twice(answers) == []
    assert begun_beside_another(ran) == []
    assert begun_twice(ran) == []
    assert out_of_order(ran) == []
    assert scene.keys_by_sequence() == {sequence: {key} for sequence, key in scene.keys.items()}


def wait_committed(scene: Scene, about: Pool) -> None:
    """All of it."""
    ends = {place.partition: 0 for place in scene.places.values()}
    for partition, offset in scene.places.values():
        ends[partition] = max(ends[partition], offset + 1)
    wait_until(lambda: ends.items() <= scene.committed().items(), about=about)

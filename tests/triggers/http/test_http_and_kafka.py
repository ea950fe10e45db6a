"""An http trigger beside a Kafka trigger, in one function."""

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import yaml
from broker import Broker
from forked import PROGRAM
from kafka_records import group_offsets, produce
from replica import QUICK_GROUP, wait_until
from worker_bench import PRELUDE

from headrace.runtime.embedded.ports import free_port

HANDLER = """
import json
from nuclio_sdk import QualifiedOffset

async def handler(context, event):
    if event.trigger.kind == "kafka-cluster":
        write(event.offset)
    elif event.path == "/ack":
        acked = QualifiedOffset(event.fields["topic"], 0, int(event.fields["offset"]))
        return {"acked": await context.platform.explicit_ack(acked)}
    else:
        write("asked", "asked")
        while not exists("go"):
            await asyncio.sleep(0.01)
"""


@contextmanager
def function(folder: Path, broker: Broker, topic: str, port: int, *, ack_mode: str) -> Iterator[None]:
    """Two triggers, one worker each."""
    attributes = {"topics": [topic], "brokers": [broker.bootstrap], "consumerGroup": topic, **QUICK_GROUP}
    (folder / "main.py").write_text(PRELUDE + HANDLER)
    orders = {"kind": "kafka-cluster", "explicitAckMode": ack_mode, "attributes": attributes}
    web = {"kind": "http", "attributes": {"port": port}, "workerAvailabilityTimeoutMilliseconds": 300}
    spec = {"handler": "main:handler", "triggers": {"orders": orders, "web": web}}
    (folder / "function.yaml").write_text(yaml.safe_dump({"metadata": {"name": "f"}, "spec": spec}))
    with (folder / "out").open("wb") as out:
        command = [*PROGRAM, "run", str(folder), "--admin-port", "0"]
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (folder / "out").read_text()
        finally:
            process.kill()
            process.wait()


def ask(port: int, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=100) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def is_up(port: int) -> bool:
    try:
        return ask(port, "/__internal/health")[0] == 200
    except OSError:
        return False


def handled(folder: Path) -> list[int]:
    path = folder / "log"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_an_ack_made_in_a_request_counts_for_a_record_that_came_through_kafka(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    port = free_port()
    broker.create(topic, 1)
    produce(broker, topic, 3, partitions=1)
    with function(tmp_path, broker, topic, port, ack_mode="explicitOnly"):
        wait_until(lambda: handled(tmp_path) == [0, 1, 2] and is_up(port))
        for offset in (1, 0):
            assert json.loads(ask(port, f"/ack?topic={topic}&offset={offset}")[1]) == {"acked": True}
        wait_until(lambda: group_offsets(broker, topic).get((topic, 0)) == 2)
        assert json.loads(ask(port, "/ack?topic=nobodys&offset=0")[1]) == {"acked": False}
    assert group_offsets(broker, topic)[topic, 0] == 2


def test_requests_that_find_no_worker_and_stuck_ones_do_not_hold_up_records(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    port = free_port()
    broker.create(topic, 1)
    with function(tmp_path, broker, topic, port, ack_mode="disable"), ThreadPoolExecutor(30) as pool:
        wait_until(lambda: is_up(port))
        asked = [pool.submit(ask, port, "/stuck") for _ in range(30)]
        wait_until((tmp_path / "asked").exists)
        produce(broker, topic, 200, partitions=1)
        wait_until(lambda: handled(tmp_path) == list(range(200)))
        wait_until(lambda: sum(task.done() for task in asked) == 29)
        (tmp_path / "go").touch()
        assert sorted(task.result()[0] for task in asked) == [200, *[503] * 29]
    assert group_offsets(broker, topic)[topic, 0] == 200

"""mlrun's own serving graph, an async flow of storey's, with Kafka as its source."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml
from aiokafka import AIOKafkaProducer
from broker import Broker
from kafka_records import group_offsets
from replica import QUICK_GROUP, lines, replica, wait_until

pytestmark = pytest.mark.full

PARTITIONS, RECORDS = 8, 600
# What mlrun writes as a function's entry point, and a step of the user's.
CODE = """
import pathlib
from mlrun.runtimes import nuclio_init_hook

def note(body):
    with open(pathlib.Path(__file__).parent / "log", "a") as file:
        file.write(body.decode() + "\\n")
    return body

def init_context(context):
    nuclio_init_hook(context, globals(), "serving_v2")

def handler(context, event):
    return context.mlrun_handler(context, event)
"""
SPEC = """
import mlrun
function = mlrun.new_function("graph", kind="serving", image="image", project="project")
function.set_topology("flow", engine="async").to(name="note", handler="note")
print(function._get_serving_spec())
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mlrun with all that it needs, in a folder for PYTHONPATH: its versions of things are not ours."""
    folder = tmp_path_factory.mktemp("mlrun")
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "pip", "install", "--quiet", "--target", folder, "mlrun>=1.12"], check=True)
    return folder


def write_graph(folder: Path, packages: Path, topic: str, workers: int) -> Path:
    """As mlrun deploys it: the graph in a variable, acks by mode explicitOnly."""
    folder.mkdir()
    (folder / "graph.py").write_text(CODE)
    environment = {"PYTHONPATH": str(packages), "PATH": "/usr/bin:/bin"}
    made = subprocess.run(
        [sys.executable, "-c", SPEC], env=environment, capture_output=True, text=True, check=True
    )
    graph = json.loads(made.stdout.splitlines()[-1])
    env = {"SERVING_SPEC_ENV": json.dumps(graph), "PYTHONPATH": str(packages)}
    attributes = {
        "topics": [topic],
        "consumerGroup": f"group-{topic}",
        "initialOffset": "earliest",
        "workerAllocationMode": "static" if workers > 1 else "pool",
        **QUICK_GROUP,
    }
    trigger = {
        "kind": "kafka-cluster",
        "maxWorkers": workers,
        "explicitAckMode": "explicitOnly",
        "attributes": attributes,
    }
    spec = {
        "handler": "graph:handler",
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "triggers": {"kafka": trigger},
    }
    labels = {"mlrun/class": "serving", "nuclio.io/project-name": "project"}
    function = {"metadata": {"name": "graph", "labels": labels}, "spec": spec}
    (folder / "function.yaml").write_text(yaml.safe_dump(function))
    return folder


async def send(broker: Broker, topic: str, numbers: range) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for n in numbers:
            await producer.send(topic, b"record %d" % n, partition=n % PARTITIONS)


@pytest.mark.parametrize("workers", [1, 4], ids=["a pool of one", "static, four"])
def test_a_graph_commits_all_and_doubles_none_through_two_rebalances(
    broker: Broker, packages: Path, tmp_path: Path, workers: int
) -> None:
    topic = broker.create_topic(PARTITIONS)
    folder = write_graph(tmp_path / "f", packages, topic, workers)
    with replica(folder, "--brokers", broker.bootstrap, name="a") as first:
        first.wait_ready()
        asyncio.run(send(broker, topic, range(RECORDS // 2)))
        wait_until(lambda: len(lines(folder)) >= RECORDS // 4, about=first)
        with replica(folder, "--brokers", broker.bootstrap, name="b") as second:
            wait_until(lambda: len(second.committed()) == PARTITIONS // 2, about=second)
            asyncio.run(send(broker, topic, range(RECORDS // 2, RECORDS)))
            wait_until(lambda: len(lines(folder)) >= RECORDS * 3 // 4, about=second)
            assert second.stop() == 0
        wait_until(lambda: sum(group_offsets(broker, f"group-{topic}").values()) == RECORDS, about=first)
        assert first.stop() == 0
        assert "explicitAckSemantics is cumulative" in first.log
    assert Counter(lines(folder)) == Counter(f"record {n}" for n in range(RECORDS))

"""`make bench-model-metrics`: responses a second through functions/model_metrics into each database.

Each message is decoded and becomes a row, as traffic writes it: a third JSON, two thirds protobuf. With the
sums: Spark is under way at the same time, as by default; without: the kafka-cluster trigger alone.
"""

import asyncio
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import sqlalchemy as sa
import yaml
from aiokafka import AIOKafkaProducer

from headrace.functions.database.engine import open_engine, read_only
from headrace.functions.model_metrics.store.tables import RESPONSES
from headrace.functions.model_metrics.traffic.models import MODELS, topic_of
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from postgresql import database
from replica import replica

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
COUNT = int(os.environ.get("BENCH_RECORDS", "400000"))
TARGETS = {"sqlite": 20_000, "postgresql": 10_000}
FUNCTION = Path(__file__).parents[1] / "functions" / "model_metrics" / "function.yaml"
_PREFIX = "bench"


async def main() -> int:
    """1 where neither database is as fast as its target."""
    held = False
    async with EmbeddedKafka() as kafka:
        await kafka.create_topics({topic_of(model, _PREFIX): 4 for model in MODELS} | {"model-feedback": 1})
        await produce(kafka.bootstrap)
        for number in range(ROUNDS):
            for kind, target in TARGETS.items():
                for sums in (False, True):
                    with database(kind) as url:
                        group = f"{kind}-{number}-{sums}"
                        rate = await asyncio.to_thread(measure, kafka.bootstrap, url, group, sums=sums)
                    held |= rate >= target
                    name = f"{kind}, {'with the sums' if sums else 'without sums'}"
                    print(f"{name:30} {rate:8,.0f} responses/s   target {target:,}", flush=True)
    return 0 if held else 1


async def produce(bootstrap: str) -> None:
    """Responses, without feedback."""
    chance = random.Random(7)
    print(f"producing {COUNT:,} responses", flush=True)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        for number in range(COUNT):
            for it in MODELS[number % len(MODELS)].messages(chance, _PREFIX, "model-feedback", 0):
                await producer.send(it.topic, it.value, it.key, headers=list(it.headers))
        await producer.flush()


def measure(bootstrap: str, url: str, group: str, *, sums: bool) -> float:
    """Rows a second, between the first tenth and the last one."""
    document = yaml.safe_load(FUNCTION.read_text())
    triggers = document["spec"]["triggers"]
    triggers["responses"]["attributes"] |= {"brokers": [bootstrap], "consumerGroup": group}
    if not sums:
        del document["spec"]["spark"]
        document["spec"]["triggers"] = {"responses": triggers["responses"]}
    engine = read_only(open_engine(url))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "function.yaml").write_text(yaml.safe_dump(document))
        variables = {"DATABASE_URL": url, "KAFKA_CONSUMER_TOPIC_PREFIX": _PREFIX}
        with replica(folder, variables=variables) as running:
            try:
                began, first = wait(engine, COUNT // 10)
                ended, last = wait(engine, COUNT * 9 // 10)
                running.stop()
            finally:
                engine.dispose()
    return (last - first) / (ended - began)


def wait(engine: sa.Engine, count: int) -> tuple[float, int]:
    """Until there are so many rows: when, and how many there were."""
    newest = sa.select(sa.func.max(RESPONSES.c.id))
    while True:
        with engine.connect() as connection:
            is_there = sa.inspect(connection).has_table(RESPONSES.name)
            rows = (connection.execute(newest).scalar() or 0) if is_there else 0
        if rows >= count:
            return time.monotonic(), rows
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

"""spec.outputs on real brokers: another cluster than the trigger's, with a sign-in of its own."""

import asyncio
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import UnknownTopicOrPartitionError
from broker import Broker
from http_function import write_http_function
from kafka_records import group_offsets, produce
from replica import Replica, replica, set_spec, wait_until, write_function
from servers import GuardedBroker

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.producer import discard, start_producer
from headrace.triggers.kafka.produce.packing import targets_of

ARCHIVES = """
    def handler(context, event):
        context.produce("{archive}", {{"of": event.offset}}, output="archive")
"""


@pytest.fixture
def archive(guarded: GuardedBroker) -> str:
    """A topic of the test's own, on a second broker, that asks for a sign-in."""
    return guarded.plain.create_topic(1)


def outputs(other: GuardedBroker, password: str = "s3cret-word") -> dict[str, Any]:
    sasl = {"enable": True, "user": "ada", "password": password, "mechanism": "SCRAM-SHA-256"}
    return {"archive": {"brokers": [other.sasl_bootstrap], "sasl": sasl}}


def archived(other: GuardedBroker, archive: str) -> list[dict[str, Any]]:
    """All that is there."""

    async def read() -> list[dict[str, Any]]:
        consumer = AIOKafkaConsumer(
            archive, bootstrap_servers=other.bootstrap, auto_offset_reset="earliest", group_id=None
        )
        async with consumer:
            (end,) = (await consumer.end_offsets(consumer.assignment())).values()
            return [json.loads((await consumer.getone()).value) for _ in range(end)]

    return asyncio.run(read())


def committed(running: Replica) -> int:
    return sum(it or 0 for it in running.committed().values())


async def test_a_topic_stays_known_once_another_one_is_asked_for(broker: Broker, topic: str) -> None:
    """A producer that found its coordinator loading has asked for all topics, and keeps none of them."""
    producer = await start_producer(BrokerAccess(broker.bootstrap), "test")
    try:
        await producer.client.force_metadata_update()
        partitions, _ = await targets_of(producer, topic)
        with pytest.raises(UnknownTopicOrPartitionError):
            await targets_of(producer, f"{topic}-missing")
        assert producer.client.cluster.partitions_for_topic(topic) == {*partitions}
    finally:
        await discard(producer)


def test_records_of_one_cluster_are_sent_on_to_another(
    broker: Broker, topic: str, guarded: GuardedBroker, archive: str, tmp_path: Path
) -> None:
    folder = write_function(
        tmp_path / "f", ARCHIVES.format(archive=archive), broker.bootstrap, [topic], partitions=[0]
    )
    set_spec(folder, outputs=outputs(guarded))
    produce(broker, topic, 50, partitions=1)
    with replica(folder) as running:
        wait_until(lambda: committed(running) == 50, about=running)
        assert running.stop() == 0
        assert "s3cret-word" not in running.log
    assert sorted(it["of"] for it in archived(guarded, archive)) == [*range(50)]


def test_a_refused_sign_in_is_waited_for_in_sight_and_nothing_is_committed(
    broker: Broker, topic: str, guarded: GuardedBroker, archive: str, tmp_path: Path
) -> None:
    folder = write_function(
        tmp_path / "f",
        ARCHIVES.format(archive=archive),
        broker.bootstrap,
        [topic],
        partitions=[0],
        onFailure={"maxAttempts": 1, "then": "skip"},
    )
    set_spec(folder, outputs=outputs(guarded, "wr0ng-word"))
    produce(broker, topic, 5, partitions=1)
    with replica(folder) as running:
        line = f"{guarded.sasl_bootstrap} refuses the sign-in: check sasl.user, sasl.password"
        wait_until(lambda: line in running.log, about=running)
        wait_until(lambda: f"output archive of f: {line}" in running.get("/ready")[1], about=running)
        began = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - began < 30
        assert "wr0ng-word" not in running.log
    assert group_offsets(broker, f"group-{topic}").get((topic, 0), 0) == 0
    assert archived(guarded, archive) == []


def test_a_request_is_answered_once_its_message_is_there(
    guarded: GuardedBroker, archive: str, tmp_path: Path
) -> None:
    handler = f"""
        async def handler(context, event):
            there = await context.produce("{archive}", {{"of": "http"}}, output="archive")
            return context.Response(body=f"{{there.partition}} {{there.offset}}")
    """
    write_http_function(tmp_path, handler, spec={"outputs": outputs(guarded)})
    with replica(tmp_path) as running:
        url = running.wait_ready().trigger()["url"]
        with urllib.request.urlopen(url, data=b"", timeout=60) as answer:
            assert answer.read().decode() == "0 0"
        assert running.stop() == 0
    assert archived(guarded, archive) == [{"of": "http"}]

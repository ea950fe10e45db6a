"""A batch that opens to more than maxBatchBytes, on a real broker, wherever records are decoded."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from broker import Broker
from kafka_records import group_offsets
from replica import lines, replica, set_trigger, wait_until, write_function

WRITES = """
    def handler(context, event):
        for one in event if isinstance(event, list) else [event]:
            write(one.offset)
"""
BATCH = {"mode": "enable", "batchSize": 2, "timeout": "100ms"}
LIMIT = 1 << 16


@pytest.mark.full_but("in workers-zstd", "read_committed-gzip")
@pytest.mark.parametrize("codec", ["gzip", "zstd"])
@pytest.mark.parametrize(
    ("attributes", "fields"),
    [
        ({}, {}),
        ({"fetchMax": 1 << 30}, {}),
        ({"isolationLevel": "read_committed"}, {}),
        ({}, {"batch": BATCH}),
    ],
    ids=["in workers", "fetchMax", "read_committed", "batch"],
)
def test_a_bomb_ends_by_its_policy_and_good_records_flow(
    broker: Broker,
    tmp_path: Path,
    codec: str,
    attributes: dict[str, Any],
    fields: dict[str, object],
) -> None:
    topic = broker.create_topic(1)
    asyncio.run(send(broker, topic, codec))
    policy = {"maxAttempts": 2, "backoff": "10ms", "then": "skip"}
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], onFailure=policy, maxBatchBytes=LIMIT, **attributes
    )
    set_trigger(folder, **fields)
    with replica(folder) as running:
        running.wait_ready()
        wait_until(lambda: group_offsets(broker, f"group-{topic}").get((topic, 0)) == 5, about=running)
        assert running.stop() == 0
        assert "offset 2 is skipped" in running.log
        assert f"maxBatchBytes ({LIMIT})" in running.log
    assert lines(folder) == ["0", "1", "3", "4"]


@pytest.mark.full
def test_a_bomb_is_no_dead_letter_and_halts_its_partition(broker: Broker, tmp_path: Path) -> None:
    topic, letters = broker.create_topic(1), broker.create_topic(1)
    asyncio.run(send(broker, topic, "zstd"))
    policy = {"maxAttempts": 2, "backoff": "10ms", "then": "deadLetter", "deadLetterTopic": letters}
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], onFailure=policy, maxBatchBytes=LIMIT
    )
    with replica(folder) as running:
        wait_until(lambda: f"{topic}/0 is halted at offset 2" in running.log, about=running)
        assert running.stop() == 0
    assert group_offsets(broker, f"group-{topic}")[topic, 0] == 2


async def send(broker: Broker, topic: str, codec: str) -> None:
    """Five batches of a record; the one in the middle opens to more than the others."""
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=codec) as producer:
        for size in (1, 1, 2 * LIMIT, 1, 1):
            await producer.send_and_wait(topic, bytes(size), partition=0)

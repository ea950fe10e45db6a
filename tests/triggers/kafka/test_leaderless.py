"""A partition without a leader, as the broker would tell of it, in a running system on a real one."""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from broker import Broker
from kafka_records import handled, produce
from replica import lines, write_function
from worker_bench import until

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.config.trigger_kinds import installed_kinds
from headrace.runtime.processor.processor import Processor
from headrace.triggers.kafka import start_offsets
from headrace.triggers.kafka.client.topics import TopicDescription, describe_topics

WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset}")
"""


async def test_a_replica_starts_with_the_partitions_that_have_a_leader_and_takes_up_the_other_later(
    broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaderless = {0}

    async def describe(admin: AIOKafkaAdminClient, names: Collection[str]) -> dict[str, TopicDescription]:
        found = await describe_topics(admin, names)
        return {name: replace(it, leaderless=frozenset(leaderless)) for name, it in found.items()}

    monkeypatch.setattr(start_offsets, "describe_topics", describe)
    await asyncio.to_thread(produce, broker, topic, 80)
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    stop = asyncio.Event()
    async with asyncio.timeout(120):
        processor = Processor([load_function(folder, installed_kinds())], "")
        running = asyncio.create_task(processor.run(stop))
        await until(lambda: len(lines(folder)) == 70)
        (problem,) = await processor.problems()
        assert f"{topic}/0: where to start can't be read yet" in problem
        leaderless.clear()
        await until(lambda: len(lines(folder)) == 80)
        stop.set()
        await running
    assert handled(folder) == {(topic, number): list(range(10)) for number in range(8)}

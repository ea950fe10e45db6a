"""Batches in a running system, on a real broker."""

import asyncio
import importlib
import json
import random
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata
from broker import Broker
from kafka_records import group_offsets, produce, send_while_replicas_come_and_go
from replica import lines, replica, set_trigger, wait_until, write_function
from root import ROOT

from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.checkpoint_text import CheckpointText

# One line for each batch: what it held, by partition.
WRITES = """
    import json
    def handler(context, events):
        parts = {}
        for event in events:
            parts.setdefault(event.shard_id, []).append(event.offset)
        write(json.dumps([parts, max(event.attempt for event in events)]))
        if exists("hold"):
            wait_for("go")
"""
Parts = dict[int, list[int]]


def batches(folder: Path) -> list[Parts]:
    return [{int(n): o for n, o in json.loads(line)[0].items()} for line in lines(folder)]


def offsets(folder: Path, partition: int) -> list[list[int]]:
    return [batch[partition] for batch in batches(folder) if partition in batch]


def count(folder: Path) -> int:
    return sum(len(part) for batch in batches(folder) for part in batch.values())


def batch(size: int, timeout: str = "100ms") -> dict[str, object]:
    return {"mode": "enable", "batchSize": size, "timeout": timeout}


@pytest.mark.full
def test_batches_larger_than_the_buffer_handle_every_record_once_in_order(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, 4000)
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], channelBufferSize=8)
    set_trigger(folder, batch=batch(300))
    with replica(folder) as running:
        wait_until(lambda: count(folder) >= 4000, about=running)
        assert running.stop() == 0
    for partition in range(8):
        assert [o for part in offsets(folder, partition) for o in part] == list(range(500))
    assert max(sum(map(len, found.values())) for found in batches(folder)) == 300
    assert group_offsets(broker, f"group-{topic}") == {(topic, partition): 500 for partition in range(8)}


@pytest.mark.full
def test_a_new_owner_repeats_a_plan_whole_whatever_its_own_sizes(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], workers=1, partitions=[0], sessionTimeout="2s"
    )
    set_trigger(folder, batch=batch(150))
    (folder / "hold").touch()
    produce(broker, topic, 400, partitions=1)
    with replica(folder, name="-a") as first:
        wait_until(lambda: count(folder) == 150, about=first)
        first.kill()
    (folder / "hold").unlink()
    (folder / "go").touch()
    write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], partitions=[0], channelBufferSize=1)
    set_trigger(folder, batch=batch(20))
    with replica(folder, name="-b") as second:
        wait_until(lambda: count(folder) >= 550, about=second)
        assert second.stop() == 0
    parts = offsets(folder, 0)
    assert parts[:2] == [list(range(150))] * 2
    assert [o for part in parts[2:] for o in part] == list(range(150, 400))
    # The one that was planned behind it may have begun, for all that anybody knows.
    assert [len(part) for part in parts[2:]] == [150, 20, 20, 20, 20, 20]
    assert group_offsets(broker, f"group-{topic}") == {(topic, 0): 400}


def test_a_batch_killed_for_a_rebalance_comes_again_elsewhere_as_it_was_and_counts_no_attempt(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], maxWaitHandlerDuringRebalance="300ms"
    )
    set_trigger(folder, batch=batch(60))
    (folder / "hold").touch()
    produce(broker, topic, 800)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 2, about=first)
        held = {n: part for found in batches(folder) for n, part in found.items()}
        with replica(folder, name="-b") as second:
            first.logged("was killed in")
            (folder / "go").touch()
            wait_until(lambda: count(folder) == 800 + 120, about=second)
            assert first.stop() == second.stop() == 0
    for partition, part in held.items():
        assert offsets(folder, partition)[:2] == [part, part]
    assert {json.loads(line)[1] for line in lines(folder)} == {1}


@pytest.mark.full
def test_replicas_that_join_and_leave_cost_batches_no_repetition(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    set_trigger(folder, batch=batch(16, "20ms"))
    sent = send_while_replicas_come_and_go(broker, topic, folder, lambda: count(folder))
    assert count(folder) == sent
    for partition in range(8):
        found = [o for part in offsets(folder, partition) for o in part]
        assert found == list(range(len(found)))


async def commit_plan_past_a_transaction(broker: Broker, topic: str) -> None:
    """Ten records, and behind them the mark of their transaction: no record ever comes at offset 10."""
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic)
    async with producer, producer.transaction():
        for number in range(10):
            await producer.send(topic, str(number).encode(), partition=0)
    metadata = CheckpointText(8, Checkpoint(0, plan=PlannedBatches(0, 11))).encode(4000).text
    # Its own commit at the end, of the same offset, would say nothing of a plan.
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=f"group-{topic}", enable_auto_commit=False
    )
    async with consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(0, metadata)})


def test_a_plan_whose_last_record_is_gone_is_delivered_once_the_log_is_read_past_it(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    asyncio.run(commit_plan_past_a_transaction(broker, topic))
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    set_trigger(folder, batch=batch(4))
    with replica(folder) as running:
        wait_until(lambda: count(folder) == 10, about=running)
        assert batches(folder) == [{0: list(range(10))}]


@pytest.mark.full_but("worker_killed")
@pytest.mark.parametrize("scenario", ["replica_killed", "worker_killed"])
def test_a_batch_killed_between_its_write_and_its_ack_comes_again_as_it_was(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str
) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests/storm")
    storm, report = importlib.import_module("batches"), importlib.import_module("scenario").Report()
    random.seed(0)
    getattr(storm, scenario)(broker, tmp_path, 0, report)
    assert report.show(scenario)

"""What anybody in the group may write beside a commit's offset. On a real broker."""

import asyncio
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.structs import OffsetAndMetadata
from broker import Broker
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from kafka_records import produce
from replica import Replica, lines, replica, set_trigger, wait_until, write_function

from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.checkpoint_text import CheckpointText, decode_text
from headrace.triggers.kafka.client.commits import fetch_commits

FAR = 2**40
FORGED = Checkpoint(50, attempts=((50, FAR, 9),), plan=PlannedBatches(50, FAR), acked=((100, FAR),))
WRITES = """
    def handler(context, events):
        for event in events if isinstance(events, list) else [events]:
            for offset in range(getattr(event, "first_offset", event.offset), event.offset + 1):
                write(str(offset))
"""
BATCH = {"mode": "enable", "batchSize": 16, "timeout": "100ms"}


def forge(broker: Broker, group: str, topic: str, forged: Checkpoint) -> None:
    text = CheckpointText(8, forged).encode(4096).text

    async def commit() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        try:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.commit({partition: OffsetAndMetadata(forged.offset, text)})
        finally:
            await consumer.stop()

    asyncio.run(commit())


def write_as_confluent_kafka_does(broker: Broker, group: str, topic: str, offset: int, text: str) -> None:
    """With a NUL behind the text. It reads them likewise: texts without one with what lies behind them."""
    commit = confluent_kafka.TopicPartition(topic, 0, offset, metadata=text)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (written,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [commit])]).values()
    written.result()


async def test_a_commit_that_another_client_has_copied_says_all_that_it_says(
    broker: Broker, topic: str
) -> None:
    told = CheckpointText(8, Checkpoint(5, attempts=((5, 6, 2),), acked=((9, 10),)))
    text = told.encode(4096).text
    await asyncio.to_thread(write_as_confluent_kafka_does, broker, f"to-{topic}", topic, 5, text)
    admin, partition = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap), TopicPartition(topic, 0)
    await admin.start()
    try:
        commit = (await fetch_commits(admin, f"to-{topic}", [partition]))[partition]
    finally:
        await admin.close()
    assert commit.metadata == f"{text}\0"
    assert decode_text(commit.offset, commit.metadata) == told


@pytest.mark.full_but("records")
@pytest.mark.parametrize("delivery", ["records", "batches", "ranges"])
def test_what_a_commit_says_of_offsets_that_the_log_has_not_is_dropped(
    delivery: str, broker: Broker, topic: str, tmp_path: Path
) -> None:
    attributes: dict[str, Any] = {"delivery": "ranges"} if delivery == "ranges" else {}
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], partitions=[0], **attributes)
    if delivery != "records":
        set_trigger(folder, batch=BATCH)
    produce(broker, topic, 100, partitions=1)
    forge(broker, f"group-{topic}", topic, FORGED)
    with replica(folder) as running:
        all_of(folder, range(50, 100), running)
        produce(broker, topic, 50, partitions=1)
        all_of(folder, range(50, 150), running)
        wait_until(lambda: set(running.committed().values()) == {150}, about=running)
        assert running.log.count(f"{topic}/0: the log ends at offset 100; what the group's commit says") == 1
        assert running.stop() == 0


def all_of(folder: Path, offsets: range, running: Replica) -> None:
    """And nothing else."""
    wait_until(lambda: len(lines(folder)) >= len(offsets), about=running)
    assert [int(line) for line in lines(folder)] == list(offsets)

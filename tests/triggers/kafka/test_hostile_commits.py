"""What anybody in the group may write beside a commit's offset. On a real broker."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata
from broker import Broker
from kafka_records import produce
from replica import Replica, lines, replica, set_trigger, wait_until, write_function

from headrace.runtime.partitions.checkpoint import Checkpoint, Plan
from headrace.runtime.partitions.checkpoint_text import CheckpointText

FAR = 2**40
FORGED = Checkpoint(50, attempts=((50, FAR, 9),), plan=Plan(50, FAR), acked=((100, FAR),))
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

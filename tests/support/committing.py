"""A committer of a Kafka trigger, on a consumer that is played and on a real broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    KafkaError,
    OffsetMetadataTooLargeError,
    UnknownTopicOrPartitionError,
)

from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.flow_control import FlowLimit
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import CheckpointText, decode_text
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.record_buffer import RecordBuffer
from headrace.runtime.streams.committer import Committer
from headrace.triggers.kafka.client.commits import (
    PartitionsRefusedError,
    fetch_commits,
    tell_partitions_apart,
)
from headrace.triggers.kafka.client.internals import generation
from headrace.triggers.kafka.group.offsets import GroupOffsets, GroupTopics

TP = TopicPartition("t", 0)
KEY = PartitionKey("t", 0)


class Partition(AssignedPartition):
    """One whose checkpoint a test says."""

    def __init__(self, topic: str, partition: int, checkpoint: Checkpoint) -> None:
        super().__init__(
            PartitionKey(topic, partition), Checkpoint(checkpoint.offset), FlowLimit.of(1), RecordBuffer()
        )
        self._said = checkpoint

    @property
    def checkpoint(self) -> Checkpoint:
        return self._said

    @checkpoint.setter
    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self._said = checkpoint


class Coordinator:
    generation = 1


class Consumer:
    """Holds what was committed; a commit ends when `may_answer` is set, or is refused."""

    def __init__(self) -> None:
        self._coordinator = Coordinator()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.refusal: KafkaError | None = None
        self.max_chars = 4096
        self.refused: set[TopicPartition] = set()
        self.commits: list[dict[TopicPartition, tuple[int, str]]] = []
        self.was_asked, self.asked = asyncio.Event(), 0

    async def commit(self, offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        self.asked += 1
        self.was_asked.set()
        await self.may_answer.wait()
        if self.refusal is not None:
            raise self.refusal
        if any(len(metadata) > self.max_chars for _, metadata in offsets.values()):
            raise OffsetMetadataTooLargeError
        self.commits.append({tp: offset for tp, offset in offsets.items() if tp not in self.refused})
        if errors := {tp: UnknownTopicOrPartitionError() for tp in offsets if tp in self.refused}:
            raise PartitionsRefusedError(errors)


def group_offsets(consumer: object, *topics: str) -> GroupOffsets:
    offsets = GroupOffsets(consumer, None, "group")
    offsets.topics = GroupTopics(first_partition_counts=dict.fromkeys(topics, 8))
    return offsets


def trigger_metrics() -> TriggerMetrics:
    return TriggerMetrics(MetricRegistry(), "", "f", "kafka-cluster", "t")


def handled(count: int) -> Partition:
    return Partition("t", 0, Checkpoint(count))


def scattered(count: int, offset: int = 0) -> Checkpoint:
    """Acked runs that take about 4 characters each."""
    return Checkpoint(
        offset, acked=tuple((offset + 50 * n, offset + 50 * n + 2) for n in range(1, count + 1))
    )


def decoded(commit: tuple[int, str]) -> Checkpoint:
    metadata = decode_text(*commit)
    assert metadata is not None
    return metadata.checkpoint


@asynccontextmanager
async def member(bootstrap: str, *topics: str) -> AsyncIterator[tuple[Committer, AIOKafkaAdminClient]]:
    """A committer whose gate is open, of a group named as the first topic."""
    consumer = AIOKafkaConsumer(
        *topics, bootstrap_servers=bootstrap, group_id=topics[0], enable_auto_commit=False
    )
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await consumer.start()
    await admin.start()
    tell_partitions_apart(consumer)
    try:
        committer = Committer(group_offsets(consumer, *topics), trigger_metrics())
        committer.open([], {}, generation(consumer))
        yield committer, admin
    finally:
        await admin.close()
        await consumer.stop()


async def held(admin: AIOKafkaAdminClient, topic: str, partition: int) -> CheckpointText | None:
    tp = TopicPartition(topic, partition)
    commit = (await fetch_commits(admin, topic, [tp]))[tp]
    return decode_text(commit.offset, commit.metadata)

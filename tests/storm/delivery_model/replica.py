"""A processor without processes."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import Any

from worker_bench import Record

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.allocators import PoolAllocator
from headrace.runtime.dispatch.failure_handler import FailureHandler
from headrace.runtime.dispatch.interface import Feed
from headrace.runtime.dispatch.partition_acks import PartitionAcks
from headrace.runtime.dispatch.redelivery import Redelivery
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.streams.committer import Committer
from headrace.runtime.tasks import end_tasks
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.outcomes import Ack
from headrace.runtime.wire.records import WireRecord
from headrace.triggers.kafka.group.offsets import GroupOffsets, GroupTopics

from .broker import PARTITIONS, Client, Group

COMMIT_SECONDS = 5.0
WriteLetter = Callable[[int, int, bool], None]
"""Of a partition's offset, which its writer still has, or not."""


class Replica(Feed):
    """Its partitions, and what its workers hold of each."""

    def __init__(self, group: Group, member: int, policy: DeliveryPolicy, write_letter: WriteLetter) -> None:
        metrics = TriggerMetrics(MetricRegistry(), "", "f", "kafka-cluster", "t")
        self.client = Client(group, member)
        self.offsets = GroupOffsets(self.client, None, "group")
        self.offsets.topics = GroupTopics(first_partition_counts={"t": PARTITIONS})
        self.committer = Committer(self.offsets, metrics)
        self._group = group
        state = DispatcherState(policy, metrics, PoolAllocator(), Lease.create(1), feed=self)
        self.writes = state.dead_letter_writes  # that are under way, by lane
        self.failed = FailureHandler(state, lambda _: None)
        redelivery = Redelivery(state, self.failed, lambda _: None)
        self.acks = PartitionAcks(state, self.failed, redelivery, lambda _: None)
        self.logs: dict[int, list[int]] = {}
        """What its partitions were read from, by lane."""
        self.tasks: set[asyncio.Task[Any]] = set()
        self.early: list[Ack] = []
        self.is_frozen = False
        self._write_letter = write_letter
        self.forget()

    def forget(self) -> None:
        """It has nothing any more."""
        self.starting: list[int] = []
        self.partitions: dict[int, AssignedPartition] = {}
        self.restarting: dict[int, AssignedPartition] = {}
        """Those whose log was made anew, until what was committed of the old one is forgotten."""
        self.planned: list[tuple[AssignedPartition, int]] = []
        """Parts of batches that wait for the commit of their plan, and where each ends."""
        self.in_flight: dict[int, list[Record]] = {}
        self.handled: set[tuple[int, int]] = set()
        self.failures: dict[tuple[int, int], int] = {}  # in the present assignment
        self.deaths: dict[int, int] = {}  # of workers in the present batch
        self.early.clear()

    def all_partitions(self) -> Iterator[AssignedPartition]:
        """As its assignment has them."""
        yield from self.partitions.values()
        yield from self.restarting.values()

    def end_of(self, partition: AssignedPartition) -> int:
        return self._group.ends[partition.key.partition]

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        """For what failed: its attempts, before it comes again."""
        return await self.committer.commit(partitions, COMMIT_SECONDS)

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """It takes its time, and isn't done while it is frozen."""
        number, logs = partition.key.partition, self.client._group.offsets
        await asyncio.sleep(1)
        while self.is_frozen:  # time is virtual
            await asyncio.sleep(1)
        if logs[number] is self.logs[partition.lane.id]:  # else its offset is another record's by now
            self._write_letter(number, record.offset, self.partitions.get(number) is partition)
        return True

    def start(self, work: Any) -> None:
        """It goes on beside what else happens."""
        task = asyncio.get_event_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def end(self) -> None:
        """Nothing of it goes on."""
        await end_tasks(self.tasks)
        await self.failed.stop()

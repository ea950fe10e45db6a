"""What is so once a partition was given back. No workers: what they would do is done by hand."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from committing import Consumer, group_offsets, trigger_metrics
from worker_bench import QUICK, records

from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.partitions.flow_control import StreamLimits
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.streams.assignment import Assignment
from headrace.runtime.streams.committer import Committer
from headrace.runtime.streams.stream import StartOffsets
from headrace.runtime.wire.lease import Lease, now_ns
from headrace.runtime.workers.handle import WorkerState

ONE, OTHER = PartitionKey("t", 0), PartitionKey("t", 1)
SESSION_SECONDS = 60


class Replica:
    """An assignment of ONE and OTHER, of each of which three records are fetched."""

    def __init__(self) -> None:
        self.consumer, self.lease = Consumer(), Lease.create(1)
        spawn: Any = None
        self.dispatcher = Dispatcher(1, spawn, QUICK, trigger_metrics(), self.lease)
        self.may_read, self.is_read = asyncio.Event(), asyncio.Event()
        self.may_read.set()
        stream: Any = SimpleNamespace(
            produce=None,
            on_left=lambda _: None,
            on_room=lambda _: None,
            read_starts=self.read_starts,
            seek=lambda *_: None,
            log_id=lambda _: "",
            on_started=self.is_read.set,
        )
        self.assignment = Assignment(
            self.dispatcher, stream, StreamLimits(16, 0, "channelBufferSize", 1 << 20)
        )
        self.assignment.committer = Committer(group_offsets(self.consumer, "t"), trigger_metrics())
        self.assignment.committer.open([ONE, OTHER], {}, generation=1)
        self.lease.renew(now_ns() + SESSION_SECONDS * 10**9)
        self.lease.begin()
        for key in (ONE, OTHER):
            partition = self.assignment.partitions[key] = of_records(key, Checkpoint(0), 16)
            partition.on_fetched(records(0, 3))
        self.dispatcher.begin(list(self.assignment.partitions.values()))

    async def read_starts(self, keys: Collection[PartitionKey]) -> StartOffsets:
        """They are at their beginning."""
        await self.may_read.wait()
        return StartOffsets(dict.fromkeys(keys, Checkpoint(0)), {})

    def handle(self, partition: AssignedPartition) -> None:
        """Its next record."""
        partition.lane.on_settled(partition.lane.take(1, 1 << 20))

    @property
    def committed(self) -> list[dict[int, int]]:
        """By each commit: partitions and their offsets."""
        return [{tp.partition: it for tp, (it, _) in commit.items()} for commit in self.consumer.commits]


@asynccontextmanager
async def replica() -> AsyncIterator[Replica]:
    """On the loop of its test."""
    made = Replica()
    yield made
    await made.dispatcher.stop(0)


async def test_all_that_is_done_of_it_is_committed_before_others_get_it() -> None:
    async with replica() as it:
        for _ in range(2):
            it.handle(it.assignment.partitions[ONE])
        await it.assignment.give_back(1, 0, [ONE])
        assert it.committed == [{ONE.partition: 2}]


async def test_nothing_of_it_is_committed_after_that_though_the_gate_is_open_for_others() -> None:
    async with replica() as it:
        gone, stays = it.assignment.partitions[ONE], it.assignment.partitions[OTHER]
        await it.assignment.give_back(1, 0, [ONE])
        it.consumer.commits.clear()
        gone.ledger.settle(0, 3)  # as a message that is refused late may have it
        it.handle(stays)
        assert await it.assignment.commit([gone, stays])
        assert it.committed == [{OTHER.partition: 1}]


async def test_the_lease_goes_on_as_long_as_something_stays() -> None:
    async with replica() as it:
        await it.assignment.give_back(1, 0, [ONE])
        assert 0 < it.lease.left_seconds <= SESSION_SECONDS
        await it.assignment.give_back(1, 0)
        assert it.lease.left_seconds > 1000 * SESSION_SECONDS, "there is nothing that others could be given"


async def test_nothing_is_handed_out_once_the_lease_is_over() -> None:
    async with replica() as it:
        (worker,) = it.dispatcher.workers
        worker.state = WorkerState.READY
        partition = it.assignment.partitions[ONE]
        it.dispatcher.submit(partition.lane)
        it.lease.end_at(now_ns() - 1)
        it.dispatcher.dispatch()
        assert not worker.in_flight.runs
        it.lease.renew(now_ns() + SESSION_SECONDS * 10**9)
        it.dispatcher.dispatch()
        assert {run.lane for run in worker.in_flight.runs} == {partition.lane}
        worker.in_flight.take_all()


async def test_what_leaves_while_its_start_is_read_never_begins_and_what_comes_with_it_does() -> None:
    third, fourth = PartitionKey("t", 2), PartitionKey("t", 3)
    async with replica() as it, asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        it.may_read.clear()
        it.assignment.on_assigned([third, fourth], 1, tasks)
        await asyncio.sleep(0)
        await it.assignment.give_back(1, 0, [third])
        it.may_read.set()
        await it.is_read.wait()
        assert list(it.assignment.partitions) == [ONE, OTHER, fourth]

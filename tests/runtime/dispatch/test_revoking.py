"""How long a revoke waits for handlers, by a clock that is reckoned; what they do is played."""

import asyncio
from typing import cast

import pytest
from standing_worker import StandingWorker
from virtual_time import in_virtual_time
from worker_bench import records

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.allocators import PoolAllocator
from headrace.runtime.dispatch.revoking import PartitionRevoker
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.wire.lease import Lease
from headrace.runtime.workers.handle import WorkerHandle

WAIT_SECONDS = 5.0


class Stuck(StandingWorker):
    """Its handler goes on until it is killed: then its record comes back."""

    killed_at: float | None = None

    def hold_for(self, shared: DispatcherState, partition: AssignedPartition) -> None:
        self.shared = shared
        self.hold(partition)
        partition.lane.on_sent(self.index)

    def dump_stack(self) -> None:
        """It doesn't say what it is in."""

    def kill(self, why: str) -> bool:
        self.killed_at = asyncio.get_running_loop().time()
        for run in self.in_flight.take_all():
            run.lane.on_returned(run.records)
        self.shared.changed.set()
        return True


def revoked(after_seconds: float | None) -> tuple[float, Stuck, AssignedPartition]:
    """When a revoke has ended whose handler ends then, or never, by itself."""

    async def revoke() -> tuple[float, Stuck, AssignedPartition]:
        metrics = TriggerMetrics(MetricRegistry(), "", "f", "kafka-cluster", "t")
        shared = DispatcherState(DeliveryPolicy(), metrics, PoolAllocator(), Lease.create(1))
        worker = Stuck()
        shared.workers.append(cast(WorkerHandle, worker))
        partition = of_records(PartitionKey("t", 0), Checkpoint(0), 16)
        partition.on_fetched(records(0, 3))
        worker.hold_for(shared, partition)
        loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()

        def end() -> None:
            worker.in_flight.take_all()
            partition.lane.on_settled(records(0, 1))
            shared.changed.set()

        if after_seconds is not None:
            loop.call_later(after_seconds, end)
        revoking = PartitionRevoker(shared)
        revoking.recall([partition])
        await revoking.end([partition], WAIT_SECONDS)
        return loop.time() - began, worker, partition

    return in_virtual_time(revoke)


def test_a_handler_that_does_not_end_is_killed_when_its_time_is_over_and_no_later() -> None:
    seconds, worker, partition = revoked(None)
    assert worker.killed_at is not None
    assert seconds == pytest.approx(WAIT_SECONDS, abs=0.05)
    assert (partition.lane.in_flight_count, partition.ledger.committable) == (0, 0)


def test_one_that_ends_in_time_is_waited_for_and_nothing_follows_it() -> None:
    seconds, worker, partition = revoked(WAIT_SECONDS - 1)
    assert worker.killed_at is None
    assert seconds == pytest.approx(WAIT_SECONDS - 1, abs=0.05)
    assert partition.ledger.committable == 1
    assert worker.recalled == [partition.lane]
    assert not partition.lane.is_deliverable

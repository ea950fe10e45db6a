"""What becomes of records that have failed: decided without workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from failure_bench import Journal, policy
from worker_bench import records

from headrace.runtime.config.delivery_policy import Then
from headrace.runtime.dispatch.allocators import PoolAllocator
from headrace.runtime.dispatch.failure_handler import FailureHandler
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.failed_records import FailedRecord
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.wire.lease import Lease


@asynccontextmanager
async def failures(then: Then) -> AsyncIterator[tuple[FailureHandler, Journal]]:
    metrics = TriggerMetrics(MetricRegistry(), "", "f", "kafka-cluster", "t")
    shared = DispatcherState(
        policy(then), metrics, PoolAllocator(), Lease.create(1), feed=(journal := Journal())
    )
    found = FailureHandler(shared, resume=lambda _: None)
    try:
        yield found, journal
    finally:
        await found.stop()


def with_failures(count: int) -> AssignedPartition:
    """Of its first record, under an owner before; three are fetched."""
    partition = of_records(PartitionKey("t", 0), Checkpoint(0, ((0, 1, count),)), 16)
    partition.on_fetched(records(0, 3))
    return partition


async def turns() -> None:
    """As far as tasks get without anything else."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_of_a_batch_that_has_spent_its_attempts_only_what_is_alone_is_given_up() -> None:
    async with failures("skip") as (found, _):
        among = 8
        while among > 1:
            record = FailedRecord(failures=3, among=among)
            assert found.judge(record)
            assert (record.batch_limit, record.is_refused) == (among // 2, False)
            among //= 2
        assert found.judge(alone := FailedRecord(failures=3))
        assert alone.is_refused


@pytest.mark.parametrize(("then", "is_refused"), [("deadLetter", True), ("skip", True), ("halt", False)])
async def test_what_had_all_its_attempts_under_its_last_owner_has_one_more_only_where_it_halts(
    then: Then, is_refused: bool
) -> None:
    async with failures(then) as (found, _):
        for count, expected in ((3, is_refused), (2, False)):
            partition = with_failures(count)
            found.begin(partition)
            assert partition.failed.is_refused(0) == expected


async def test_a_record_stays_open_until_its_dead_letter_is_written() -> None:
    async with failures("deadLetter") as (found, journal):
        journal.refusal = OSError("no such topic")
        partition = with_failures(3)
        found.begin(partition)
        assert partition.lane.is_head_refused
        found.refuse(partition, partition.lane)
        await turns()
        assert len(journal.dead_letters) == 1
        assert partition.ledger.committable == 0
        assert partition.lane.why_stuck == ": no such topic"
        journal.refusal = None
        async with asyncio.timeout(20):
            while not partition.ledger.committable:
                await asyncio.sleep(0.01)
        assert [record.offset for record, *_ in journal.dead_letters] == [0, 0]
        assert partition.ledger.committable == 1

"""Which lane's records a worker gets next, where they are handed out in runs."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from batch_bench import Commits
from standing_worker import StandingWorker
from worker_bench import QUICK, bench, records, until

from headrace.runtime.config.delivery_policy import BatchPolicy, DeliveryPolicy
from headrace.runtime.dispatch.allocators import PoolAllocator
from headrace.runtime.dispatch.run_scheduler import RunScheduler
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.wire.lease import Lease


def waiting(
    count: int, dispatch: Callable[[], None] = lambda: None
) -> tuple[RunScheduler, DispatcherState, list[AssignedPartition]]:
    """So many lanes, all offered."""
    metrics = TriggerMetrics(MetricRegistry(), "", "f", "kafka-cluster", "t")
    shared = DispatcherState(QUICK, metrics, PoolAllocator(), Lease.create(1))
    partitions = [of_records(PartitionKey("t", number), Checkpoint(0), 256) for number in range(count)]
    for partition in partitions:
        partition.on_fetched(records(0, 10))
        shared.partitions[partition.lane.id] = partition
        shared.allocator.offer(partition.lane)
    return RunScheduler(shared, refuse, dispatch), shared, partitions


def refuse(partition: AssignedPartition, lane: PartitionLane) -> None:
    raise AssertionError(partition)


def left(shared: DispatcherState) -> list[Lane]:
    return shared.allocator.prune(0)


def lanes(partitions: list[AssignedPartition]) -> list[Lane]:
    return [partition.lane for partition in partitions]


def unsuited(partitions: list[AssignedPartition]) -> Any:
    return {partition.lane.id for partition in partitions}


def test_a_worker_without_room_gets_nothing_and_all_stays() -> None:
    runs, shared, partitions = waiting(3)
    worker = StandingWorker()
    for held in (0, 1):
        shared.run_sizer.ns_per_record = 1e9
        assert runs.hand_out(worker.handle) is (held == 0)
    assert [offsets for _, offsets in worker.sent] == [[0]]
    assert left(shared) == lanes(partitions[1:])


def test_the_first_that_suits_goes_and_those_before_it_keep_their_places() -> None:
    runs, shared, partitions = waiting(4)
    worker = StandingWorker(unsuited=unsuited(partitions[:2]))
    assert runs.hand_out(worker.handle)
    assert worker.sent == [(partitions[2].lane, [0, 1])]
    assert left(shared) == lanes([partitions[0], partitions[1], partitions[3]])


def test_where_none_suits_an_idle_worker_gets_the_first_and_a_busy_one_waits() -> None:
    runs, shared, partitions = waiting(3)
    worker = StandingWorker(unsuited=unsuited(partitions))
    (held,) = waiting(1)[2]
    worker.hold(held)
    held.lane.on_recalled()  # so nothing of it goes behind it
    assert not runs.hand_out(worker.handle)
    assert left(shared) == lanes(partitions)
    idle = StandingWorker(unsuited=unsuited(partitions))
    assert runs.hand_out(idle.handle)
    assert [lane for lane, _ in idle.sent] == lanes(partitions[:1])
    assert left(shared) == lanes(partitions[1:])


def test_a_hundred_lanes_are_looked_at_and_no_more() -> None:
    for before, is_found in ((99, True), (100, False)):
        runs, shared, partitions = waiting(before + 2)
        worker = StandingWorker(unsuited=unsuited(partitions[:before]))
        (held,) = waiting(1)[2]
        worker.hold(held)
        held.lane.on_recalled()
        assert runs.hand_out(worker.handle) is is_found
        kept = partitions[:before] + partitions[before + 1 :] if is_found else partitions
        assert left(shared) == lanes(kept)


def test_where_nothing_waits_a_worker_gets_what_follows_in_a_lane_of_its_own() -> None:
    runs, shared, (partition,) = waiting(1)
    worker = StandingWorker()
    assert runs.hand_out(worker.handle)
    assert left(shared) == []
    assert runs.hand_out(worker.handle)
    assert worker.sent == [(partition.lane, [0, 1]), (partition.lane, [2, 3])]


@pytest.mark.parametrize("count", [1, 2])
async def test_where_times_are_steady_the_next_record_is_there_before_a_long_one_ends(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another lane, or of its own."""
    when = list[float]()
    loop = asyncio.get_running_loop()
    runs, shared, partitions = waiting(count, lambda: when.append(loop.time()))
    shared.run_sizer.ns_per_record = 30e6
    worker = StandingWorker()
    assert runs.hand_out(worker.handle)
    began = loop.time()
    assert not runs.hand_out(worker.handle), "it has just begun"
    assert not runs.hand_out(worker.handle)
    await until(lambda: when)
    assert when[0] - began > 0.02
    assert len(when) == 1, "a timer for each worker"
    worker.since_ns = 0
    for ran_ms, is_given in ((20, False), (40, False), (30, True)):
        monkeypatch.setattr(time, "monotonic_ns", lambda ran_ms=ran_ms: ran_ms * 1_000_000)
        assert runs.hand_out(worker.handle) is is_given
    assert not runs.hand_out(worker.handle), "no more than one"
    assert worker.sent == [(partitions[0].lane, [0]), (partitions[-1].lane, [2 - count])]
    await runs.stop()


async def test_a_process_that_says_a_wrong_time_gets_the_next_record_no_later() -> None:
    when = list[bool]()
    runs, shared, _ = waiting(2, lambda: when.append(True))
    shared.run_sizer.ns_per_record = 30e6
    worker = StandingWorker(since_ns=time.monotonic_ns() + 10**15)
    assert runs.hand_out(worker.handle)
    assert not runs.hand_out(worker.handle)
    await until(lambda: when)
    await runs.stop()


async def test_where_times_vary_nothing_goes_behind_a_long_record() -> None:
    runs, shared, _ = waiting(2)
    for handler_ns in (10_000_000, 50_000_000) * 10:
        shared.run_sizer.on_measured(1, handler_ns)
    worker = StandingWorker()
    assert runs.hand_out(worker.handle)
    worker.since_ns = time.monotonic_ns() - int(shared.run_sizer.ns_per_record)
    assert not runs.hand_out(worker.handle)


async def test_a_worker_in_long_records_gets_the_next_one_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = """
        def handler(context, event):
            time.sleep(0.03)
            write(event.offset)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        worker, beside = b.dispatcher.workers[0], list[int]()
        send = worker.sender.send

        def seen(lane: Lane, batch: Any) -> None:
            beside.append(len(worker.in_flight))
            send(lane, batch)

        monkeypatch.setattr(worker.sender, "send", seen)
        b.feed(p, records(0, 60))
        await b.settled(p, 60)
        assert b.lines() == [str(offset) for offset in range(60)]
    assert 1 in beside[10:]
    assert max(beside[10:]) <= 1


async def test_a_batch_is_not_sent_into_another_session_than_its_plan_names(tmp_path: Path) -> None:
    handler = """
        def handler(context, events):
            write([event.offset for event in events])
    """
    source, policy = Commits(), DeliveryPolicy(batch=BatchPolicy(4, 0.05))
    async with bench(tmp_path, handler, policy=policy, spark_session_id="new") as b:
        b.dispatcher.connect(source)
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 4))
        await until(lambda: source.commits)
        process = b.dispatcher.workers[0]._process
        assert process is not None
        process.spark_session_id = "newer"  # its handler has lost its session, and begun another one
        source.may_answer.set()
        await b.settled(p, 4)
        plans = [commit[0].plan for commit in source.commits]
        assert plans == [PlannedBatches(0, 4, "new"), PlannedBatches(0, 4, "newer")]
        assert b.lines() == ["[0, 1, 2, 3]"]

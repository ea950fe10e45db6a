"""What waits behind a long record: when it is asked to come back, and what stays."""

import time

import pytest
from standing_worker import StandingWorker
from worker_bench import records, until

from headrace.runtime.dispatch import stragglers as module
from headrace.runtime.dispatch.choice.allocators import Allocator, PoolAllocator, StaticAllocator
from headrace.runtime.dispatch.stragglers import Stragglers
from headrace.runtime.partitions.assigned import AssignedPartition, of_records
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.workers.in_flight import RunningRecord


def filled(count: int) -> list[AssignedPartition]:
    partitions = [of_records(PartitionKey("t", number), Checkpoint(0), 256) for number in range(count)]
    for partition in partitions:
        partition.on_fetched(records(0, 10))
    return partitions


def stragglers(*workers: StandingWorker, allocator: Allocator | None = None) -> Stragglers:
    return Stragglers([worker.handle for worker in workers], allocator or PoolAllocator())


async def test_only_what_waits_behind_a_record_that_takes_long_comes_back() -> None:
    busy, idle = StandingWorker(), StandingWorker(1)
    running, second, third = filled(3)
    busy.hold(running, second, third, second, running)
    found = stragglers(busy, idle)
    found.watch()
    await until(lambda: busy.looks >= 3)  # it looks again and again
    assert busy.recalled == [], "it has only begun"
    busy.since_ns = 0
    await until(lambda: busy.recalled)
    assert busy.recalled == [second.lane, third.lane]
    assert busy.in_flight.slow == {0}
    assert idle.looks <= busy.looks
    looks = busy.looks
    found.watch()
    await until(lambda: idle.looks > looks)
    assert busy.looks == looks, "it is known by now"
    assert len(busy.recalled) == 2
    found.stop()


async def test_behind_a_loop_that_is_held_up_those_come_back_that_wait_for_their_turn_on_it() -> None:
    busy, idle = StandingWorker(since_ns=0), StandingWorker(1)
    busy.in_flight.seats = idle.in_flight.seats = 2
    running, second, third = filled(3)
    busy.hold(running, second)
    found = stragglers(busy, idle)
    found._look()
    assert busy.recalled == [], "each has a seat"
    busy.hold(third)
    found._look()
    assert busy.recalled == [second.lane, third.lane]
    assert busy.in_flight.slow == set(), "what runs there may just wait for something"
    busy.is_loop_held_up = True
    found._look()
    assert busy.in_flight.slow == {0}
    assert busy.is_straggling, "what it got now would wait too"
    busy.in_flight.take(0)
    assert not busy.in_flight.is_straggling
    found.stop()


@pytest.mark.parametrize(
    "why", ["nobody idles", "it isn't ready", "nothing waits", "its lane is its worker's"]
)
async def test_nothing_is_watched_where_nothing_could_move(why: str) -> None:
    busy, other = StandingWorker(since_ns=0), StandingWorker(1)
    running, second, third = filled(3)
    busy.hold(running, *([] if why == "nothing waits" else [second]))
    allocator: Allocator = PoolAllocator()
    if why == "nobody idles":
        other.hold(third)
    elif why == "it isn't ready":
        other.is_ready = False
    elif why == "its lane is its worker's":
        allocator = StaticAllocator(2)
        allocator.place([running.key, second.key, third.key])
    found = stragglers(busy, other, allocator=allocator)
    found.watch()
    assert found._timer is None
    found._look()
    assert busy.recalled == []
    found.stop()


async def test_what_is_stopped_looks_no_more() -> None:
    busy, idle = StandingWorker(since_ns=0), StandingWorker(1)
    busy.hold(*filled(2))
    found = stragglers(busy, idle)
    found.watch()
    timer = found._timer
    assert timer is not None
    found.watch()
    assert found._timer is timer, "one timer is enough"
    found.stop()
    assert timer.cancelled()


def test_ten_milliseconds_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    (partition,) = filled(1)
    running = RunningRecord(0, partition.lane, records(0, 1)[0], since_ns=5)
    for now, is_long in ((5, False), (10_000_005, False), (10_000_006, True)):
        monkeypatch.setattr(time, "monotonic_ns", lambda now=now: now)
        worker = StandingWorker()
        worker.hold(partition)
        assert module._is_held_up(worker.handle, [running]) is is_long

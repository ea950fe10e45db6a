"""What waits behind a long record: when it is asked to come back, and what stays."""

import time

import pytest
from standing_worker import StandingWorker
from worker_bench import records, until

from headrace.runtime.dispatch.allocators import Allocator, PoolAllocator, StaticAllocator
from headrace.runtime.dispatch.run_sizer import RunSizer
from headrace.runtime.dispatch.stragglers import Stragglers
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records


def filled(count: int) -> list[AssignedPartition]:
    partitions = [of_records(PartitionKey("t", number), Checkpoint(0), 256) for number in range(count)]
    for partition in partitions:
        partition.on_fetched(records(0, 10))
    return partitions


def stragglers(
    *workers: StandingWorker, allocator: Allocator | None = None, usual_ns: float = 1000
) -> Stragglers:
    sizer = RunSizer()
    sizer.ns_per_record = usual_ns
    return Stragglers([worker.handle for worker in workers], allocator or PoolAllocator(), sizer)


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
    looks = busy.looks
    found._look()
    assert (busy.looks, idle.looks) == (looks, 0), "it is known by now"
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


async def test_behind_a_long_record_nothing_waits_where_all_are_busy_either() -> None:
    """What follows elsewhere would go before it for as long as that runs."""
    busy, other = StandingWorker(since_ns=0), StandingWorker(1)
    running, second, third = filled(3)
    busy.hold(running, second)
    other.hold(third)
    found = stragglers(busy, other)
    found.watch()
    await until(lambda: busy.recalled)
    assert busy.recalled == [second.lane]
    assert busy.in_flight.slow == {0}
    assert other.recalled == []
    found.stop()


async def test_what_waits_for_seats_of_a_free_loop_waits_as_well_elsewhere_where_all_are_taken() -> None:
    """It would go from one to the other for as long as all that runs waits for something."""
    busy, other = StandingWorker(since_ns=0), StandingWorker(1, since_ns=0)
    busy.in_flight.seats = other.in_flight.seats = 2
    busy.hold(*filled(3))
    other.hold(*filled(2))
    found = stragglers(busy, other)
    for is_loop_held_up in (False, True):
        busy.is_loop_held_up = is_loop_held_up
        found._look()
        assert bool(busy.recalled) is is_loop_held_up
    found.stop()


@pytest.mark.parametrize("count", [1, 2])
def test_where_all_are_busy_what_takes_as_long_as_usual_holds_nothing_up(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch takes as long as its records."""
    busy, other = StandingWorker(since_ns=0), StandingWorker(1)
    running, second, third = filled(3)
    for partition in (running, second):
        busy.hold(partition) if count == 1 else busy.hold_batch(partition)
    other.hold(third)
    found = stragglers(busy, other, usual_ns=20e6)
    for now_ms, is_recalled in ((40 * count + 50, False), (40 * count + 51, True)):
        monkeypatch.setattr(time, "monotonic_ns", lambda now_ms=now_ms: now_ms * 1_000_000)
        monkeypatch.setattr(found, "watch", lambda: None)
        found._look()
        assert busy.recalled == [second.lane] * is_recalled


@pytest.mark.parametrize(
    "why", ["it is alone", "the other one isn't ready", "nothing waits", "its worker's queue is its own"]
)
async def test_nothing_is_watched_where_nothing_could_move(why: str) -> None:
    busy, other = StandingWorker(since_ns=0), StandingWorker(1)
    running, second = filled(2)
    busy.hold(running, *([] if why == "nothing waits" else [second]))
    allocator: Allocator = PoolAllocator()
    if why == "the other one isn't ready":
        other.is_ready = False
    elif why == "its worker's queue is its own":
        allocator = StaticAllocator(2)  # that of a lane without a place, too
    found = stragglers(busy, *([] if why == "it is alone" else [other]), allocator=allocator)
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
    for now, is_long in ((5, False), (10_000_005, False), (10_000_006, True)):
        monkeypatch.setattr(time, "monotonic_ns", lambda now=now: now)
        busy, idle = StandingWorker(since_ns=5), StandingWorker(1)
        busy.hold(partition)
        found = stragglers(busy, idle)
        assert found._is_held_up(busy.handle, busy.running()) is is_long

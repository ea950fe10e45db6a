"""Which worker gets what."""

from hypothesis import given
from hypothesis import strategies as st
from worker_bench import records

from headrace.runtime.dispatch.allocators import PoolAllocator, StaticAllocator, contiguous_ranges
from headrace.runtime.partitions.key import PartitionKey, describe_partitions
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records


def filled(topic: str, number: int) -> AssignedPartition:
    partition = of_records(PartitionKey(topic, number), Checkpoint(0), 256)
    partition.on_fetched(records(0, 3))
    return partition


def test_twenty_partitions_on_five_workers_are_the_documented_ranges() -> None:
    keys = [PartitionKey("t", number) for number in range(20)]
    assert contiguous_ranges(reversed(keys), 5) == {("t", number): number // 4 for number in range(20)}


@given(st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 50))), st.integers(1, 12))
def test_static_ranges_are_contiguous_over_all_topics_and_even(
    names: set[tuple[str, int]], workers: int
) -> None:
    keys = {PartitionKey(*name) for name in names}
    ranges = contiguous_ranges(keys, workers)
    in_order = [ranges[key] for key in sorted(keys)]
    assert set(ranges) == keys
    assert in_order == sorted(in_order)
    sizes = [in_order.count(worker) for worker in range(workers)]
    assert max(sizes) - min(sizes) <= 1


def test_pool_serves_partitions_in_the_order_in_which_they_became_ready() -> None:
    allocator = PoolAllocator()
    first, second = filled("t", 0), filled("t", 1)
    for partition in (second, first, second):
        allocator.offer(partition.lane)
    assert [allocator.take(0), allocator.take(1), allocator.take(0)] == [second.lane, first.lane, None]


def test_what_is_revoked_while_it_waits_is_not_handed_out() -> None:
    allocator = PoolAllocator()
    partition = filled("t", 0)
    allocator.offer(partition.lane)
    partition.revoke()
    assert allocator.take(0) is None


def test_what_is_at_a_worker_is_not_handed_out_to_another() -> None:
    allocator = PoolAllocator()
    lane = filled("t", 0).lane
    allocator.offer(lane)
    taken = lane.take(1, 1 << 20)
    assert lane.is_deliverable, "behind what it has, its own worker may get more"
    assert allocator.take(1) is None
    lane.on_settled(taken)
    allocator.offer(lane)
    assert allocator.take(1) is lane


def test_what_was_taken_may_be_offered_again() -> None:
    allocator = PoolAllocator()
    lane = filled("t", 0).lane
    for _ in range(3):
        assert allocator.offer(lane)
        assert not allocator.offer(lane), "it is there"
        assert allocator.take(0) is lane


def test_static_gives_a_worker_only_its_own_partitions() -> None:
    allocator = StaticAllocator(2)
    partitions = [filled("t", number) for number in range(4)]
    allocator.place([partition.key for partition in partitions])
    for partition in partitions:
        allocator.offer(partition.lane)
    assert [allocator.take(1) for _ in range(3)] == [partitions[2].lane, partitions[3].lane, None]
    assert allocator.worker_of(partitions[0].key) == 0


@given(
    st.lists(st.sets(st.integers(0, 20)), min_size=1, max_size=8),
    st.integers(1, 5),
)
def test_what_stays_keeps_its_worker_and_what_comes_fills_the_emptiest(
    assignments: list[set[int]], workers: int
) -> None:
    allocator = StaticAllocator(workers)
    before: dict[PartitionKey, int | None] = {}
    for numbers in assignments:
        keys = {PartitionKey("t", number) for number in numbers}
        allocator.place(keys)
        now = {key: allocator.worker_of(key) for key in keys}
        stay = before.keys() & keys
        assert {key: now[key] for key in stay} == {key: before[key] for key in stay}
        if not stay:
            assert now == contiguous_ranges(keys, workers)
        loads = [list(now.values()).count(worker) for worker in range(workers)]
        for key in keys - stay:
            worker = now[key]
            assert worker is not None
            assert loads[worker] - 1 <= min(loads)
        before = now


def test_ranges_read_as_people_write_them() -> None:
    keys = [("orders", 3), ("orders", 0), ("orders", 1), ("refunds", 7), ("orders", 2), ("orders", 9)]
    assert describe_partitions(keys) == "orders/0-3, orders/9, refunds/7"
    assert describe_partitions([]) == "none"

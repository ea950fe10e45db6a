"""`ackWindowSize` and acks in one partition: what its commits say, and what a new owner delivers again."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worker_bench import records

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records


def assigned(start: Checkpoint, fetched: int, window: int = 0) -> AssignedPartition:
    """A partition with `fetched` records from its start on, all of them handled."""
    partition = of_records(PartitionKey("t", 0), start, 256, window)
    if fetched:
        partition.on_fetched(records(start.offset, fetched))
    while partition.lane.buffer.count:
        partition.lane.on_unacked(partition.lane.take(256, 1 << 30))
    return partition


def repeated(checkpoint: Checkpoint, end: int) -> list[int]:
    """What a new owner gets below `end`."""
    partition = of_records(PartitionKey("t", 0), checkpoint, 256)
    if checkpoint.offset < end:
        partition.on_fetched(records(checkpoint.offset, end - checkpoint.offset))
    taken = partition.lane.take(256, 1 << 30) if partition.lane.buffer.count else []
    return [record.offset for record in taken]


def test_a_window_of_nothing_holds_back_nothing() -> None:
    partition = assigned(Checkpoint(0), 10)
    partition.on_acked(0, 7)
    partition.on_acked(9, 11)
    assert partition.checkpoint == Checkpoint(7, acked=((9, 11),))


def test_the_last_settled_stay_uncommitted() -> None:
    partition = assigned(Checkpoint(0), 10, window=3)
    for offset in range(10):
        partition.on_acked(offset, offset + 1)
    assert partition.checkpoint == Checkpoint(7)
    assert repeated(partition.checkpoint, 10) == [7, 8, 9]


def test_fewer_than_the_window_are_all_held_back() -> None:
    partition = assigned(Checkpoint(0), 10, window=300)
    partition.on_acked(0, 2)
    assert partition.checkpoint == Checkpoint(0)


def test_out_of_order_acks_hold_back_the_last_acked_not_the_highest() -> None:
    partition = assigned(Checkpoint(0), 10, window=2)
    for offset in (9, 8, 7, 6, 5, 4, 3, 0, 2, 1):
        partition.on_acked(offset, offset + 1)
    assert partition.checkpoint == Checkpoint(1, acked=((3, 10),))
    assert repeated(partition.checkpoint, 10) == [1, 2]


def test_a_repeated_ack_does_not_move_the_window() -> None:
    partition = assigned(Checkpoint(0), 10, window=2)
    for offset in (0, 1, 2, 0, 0, 1):
        partition.on_acked(offset, offset + 1)
    assert partition.checkpoint == Checkpoint(1)


def test_an_ack_ahead_of_the_fetch_counts_as_settled_last() -> None:
    partition = assigned(Checkpoint(0), 10, window=2)
    for offset in (0, 1, 15, 12):
        partition.on_acked(offset, offset + 1)
    assert repeated(partition.checkpoint, 20) == list(range(2, 20))
    partition.on_fetched(records(10, 10))
    assert repeated(partition.checkpoint, 20) == list(range(2, 20))
    partition.on_acked(2, 3)
    assert repeated(partition.checkpoint, 20) == [2, *range(3, 15), *range(16, 20)]


def test_an_ack_through_holds_back_the_highest_of_its_span_at_once_however_long_it_is() -> None:
    partition = assigned(Checkpoint(0), 10, window=3)
    began = time.perf_counter()
    partition.on_acked(0, 10**9)
    assert time.perf_counter() - began < 20  # one by one would take minutes
    assert partition.checkpoint.offset == 10**9 - 3


def test_records_acked_ahead_at_the_commit_are_behind_it() -> None:
    partition = assigned(Checkpoint(5), 0)
    partition.on_acked(5, 6)
    partition.on_acked(7, 8)
    assert partition.checkpoint == Checkpoint(6, acked=((7, 8),))
    partition.on_fetched(records(5, 5))
    assert partition.checkpoint == Checkpoint(6, acked=((7, 8),))


def test_a_large_window_costs_little_at_a_commit() -> None:
    partition = of_records(PartitionKey("t", 0), Checkpoint(0), 256, 20_000)
    for offset in [*range(1, 40_000, 2), *range(0, 40_000, 2)]:
        partition.settle(offset, offset + 1)
    began = time.perf_counter()
    checkpoint = partition.checkpoint
    assert time.perf_counter() - began < 20
    assert checkpoint.offset == 0
    assert len(checkpoint.acked) == 20_000


@pytest.mark.parametrize("size", [0, 1, 4])
@given(
    spans=st.lists(st.tuples(st.integers(0, 39), st.integers(1, 4), st.booleans()), max_size=60),
    fetched=st.integers(0, 40),
)
def test_a_new_owner_repeats_what_is_open_and_the_window_and_nothing_else(
    size: int, spans: list[tuple[int, int, bool]], fetched: int
) -> None:
    partition = assigned(Checkpoint(0), fetched, window=size)
    settled: list[int] = []  # in the order in which they were
    committed = 0
    for first, count, is_through in spans:
        first, end = (0, first + 1) if is_through else (first, first + count)  # noqa: PLW2901
        partition.on_acked(first, end)
        settled += [offset for offset in range(first, end) if offset not in settled]
        held = settled[-size:] if size else []
        expected = [offset for offset in range(45) if offset not in settled or offset in held]
        assert repeated(partition.checkpoint, 45) == expected
        assert partition.checkpoint.offset >= committed
        committed = partition.checkpoint.offset

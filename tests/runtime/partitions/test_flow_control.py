"""How much of a partition may be handed out before some of it is settled."""

from collections.abc import Callable

import pytest
from chunks import undecoded
from worker_bench import Record, records

from headrace.runtime.partitions.chunk import Records
from headrace.runtime.partitions.flow_control import FlowLimit, ReadAhead
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_chunks, of_keys, of_records
from headrace.runtime.partitions.state import PartitionState

KEY, START = PartitionKey("t", 0), Checkpoint(0)
Make = Callable[[int], AssignedPartition]


def of_100_records(in_flight: int) -> AssignedPartition:
    partition = of_records(KEY, START, 256)
    partition.limit = FlowLimit(256, in_flight, in_flight)
    partition.on_fetched(records(0, 100))
    return partition


def of_100_undecoded(in_flight: int) -> AssignedPartition:
    partition = of_chunks(KEY, START, 256, 0, ReadAhead(1 << 20))
    partition.limit = FlowLimit(256, in_flight, 2 * in_flight, read_ahead=ReadAhead(1 << 20))
    partition.on_fetched(undecoded(0, 100))
    return partition


def take(partition: AssignedPartition, most: int = 1000) -> Records:
    return partition.lane.take(most, 1 << 20) if partition.lane.is_deliverable else ()


@pytest.mark.parametrize("make", [of_100_records, of_100_undecoded])
def test_so_many_are_handed_out_and_not_settled_and_no_more(make: Make) -> None:
    partition = make(16)
    first = take(partition, 10)
    second = take(partition)
    assert len(first) + len(second) in {10, 16}, "behind others only much at a time"
    partition.lane.on_settled(first)
    assert len(second) + len(take(partition)) == 16
    assert not take(partition)
    assert not partition.waits_for_acks


@pytest.mark.parametrize("make", [of_100_records, of_100_undecoded])
def test_what_waits_for_acks_counts_among_them(make: Make) -> None:
    partition = make(16)
    partition.lane.on_unacked(take(partition))
    assert len(partition.awaiting_ack) == 16
    assert not take(partition)
    assert partition.waits_for_acks
    partition.on_acked(3, 4)
    assert len(take(partition)) == 1


def test_keys_share_the_bound() -> None:
    partition = of_keys(KEY, START, 256, "none")
    partition.limit = FlowLimit(256, 3, 3)
    partition.on_fetched(records(0, 100))
    taken = []
    while partition.lane.is_deliverable:
        part = partition.lane.next_part()
        taken.append((part, part.take(1000, 1 << 20)))
    assert [records[0].offset for _, records in taken] == [0, 1, 2]
    taken[1][0].on_settled(taken[1][1])
    assert partition.lane.is_deliverable


def test_where_each_is_acked_in_its_handler_more_go_out_until_one_is_not() -> None:
    partition = of_100_undecoded(16)
    first = take(partition)
    assert len(first) == 16
    partition.on_acked(0, 16)
    partition.lane.on_unacked(first)
    second = take(partition)
    assert len(second) == 32, "twice as many, as they are acked at once"
    partition.on_acked(16, 40)
    partition.lane.on_unacked(second)
    assert len(partition.awaiting_ack) == 8
    third = take(partition)
    assert len(third) == 8, "16 with those that wait for acks"
    partition.on_acked(40, 48)
    partition.on_acked(48, 56)
    partition.lane.on_unacked(third)
    assert len(take(partition)) == 32


def test_a_key_that_stands_keeps_no_others_from_being_fetched() -> None:
    partition = of_keys(KEY, START, 4, "key")
    partition.on_fetched([Record(offset, key=b"one") for offset in range(3)])
    part = partition.lane.next_part()
    taken = part.take(1, 1 << 20)
    assert partition.to_fetch == 0, "less than half, while something moves"
    part.on_failed(taken, "it failed", 1)
    part.on_returned(taken)
    part.become(PartitionState.BACKOFF)
    assert partition.to_fetch == 1


def test_the_record_that_holds_up_the_commit_waits_for_its_place_too() -> None:
    partition = of_keys(KEY, START, 256, "none")
    partition.limit = FlowLimit(256, 1, 1)
    partition.on_fetched(records(0, 3))
    first = partition.lane.next_part()
    record = first.take(1, 1 << 20)
    first.on_failed(record, "it failed", 1)
    first.on_returned(record)
    first.become(PartitionState.BACKOFF)
    second = partition.lane.next_part()
    taken = second.take(1, 1 << 20)
    first.become(PartitionState.ACTIVE)
    first.ready()
    assert not partition.lane.is_deliverable
    assert not partition.is_out_of_order
    second.on_settled(taken)
    assert partition.lane.next_part() is first

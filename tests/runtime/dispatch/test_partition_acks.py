"""Which acks count, by what this replica has, and of which trigger: decided without workers."""

from collections.abc import Sequence

import pytest
from acks_alone import acks_alone
from worker_bench import records

from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.partition_acks import PartitionAcks
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.wire.outcomes import Ack

KEY = PartitionKey("t", 0)


def fetched(count: int) -> AssignedPartition:
    partition = of_records(KEY, Checkpoint(0), 16)
    if count:
        partition.on_fetched(records(0, count))
    return partition


def ack(offset: int) -> Ack:
    return Ack(*KEY, offset, is_through=False)


@pytest.fixture
def acks() -> PartitionAcks:
    return acks_alone()


def test_an_ack_of_a_record_that_is_still_to_come_is_refused(acks: PartitionAcks) -> None:
    partition = fetched(3)
    acks.begin([partition])
    assert acks.settle(ack(3)) is None
    assert acks.settle(ack(2)) is partition
    partition.on_fetched(records(3, 1))
    assert partition.ledger.is_open(3)


def test_acks_that_come_before_a_start_is_known_count_once_it_is(acks: PartitionAcks) -> None:
    acks.on_assigned([KEY])
    assert acks.settle(ack(1)) is None
    partition = fetched(3)
    acks.begin([partition])
    assert partition.checkpoint == Checkpoint(0, acked=((1, 2),))


def test_what_has_left_is_not_acked_here_and_what_stays_is(acks: PartitionAcks) -> None:
    other = Ack("t", 1, 0, is_through=False)
    acks.begin([fetched(3)])
    acks.on_assigned([PartitionKey("t", 1)])
    assert acks.has(ack(0))
    acks.on_revoked([KEY])
    assert [acks.has(ack(0)), acks.has(other)] == [False, True]
    acks.on_revoked(None)
    assert not acks.has(other)


def trigger(owned: bool, had: bool = False) -> PartitionAcks:
    """It has KEY, or had it."""
    acks = acks_alone()
    if owned or had:
        acks.on_assigned([KEY])
    if not owned:
        acks.on_revoked([KEY])
    return acks


def routed(triggers: Sequence[PartitionAcks], sender: PartitionAcks) -> list[int | None]:
    """The offset that was settled by each."""
    router = AckRouter()
    partitions = [fetched(8) for _ in triggers]
    for each, partition in zip(triggers, partitions, strict=True):
        if each.has(ack(7)):
            each.begin([partition])
        router.add(each)
    router.route(ack(7), sender)
    return [7 if partition.ledger.is_settled(7) else None for partition in partitions]


def test_what_a_worker_acks_of_its_own_group_counts_for_no_other() -> None:
    own, other = trigger(owned=True), trigger(owned=True)
    assert routed([own, other], own) == [7, None]


def test_nor_once_its_own_group_has_taken_it_away() -> None:
    own, other = trigger(owned=False, had=True), trigger(owned=True)
    assert routed([own, other], own) == [None, None]


def test_what_it_never_had_goes_to_who_has_it() -> None:
    own, other = trigger(owned=False), trigger(owned=True)
    assert routed([own, other], own) == [None, 7]

"""Which acks count, by what this replica has, and of which trigger: decided without workers."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from worker_bench import records

from headrace.runtime.config.delivery_policy import AckMode, DeliveryPolicy
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.partition_acks import Acks
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.wire.records import Ack, Nack

KEY = PartitionKey("t", 0)


def fetched(count: int) -> AssignedPartition:
    partition = of_records(KEY, Checkpoint(0), 16)
    if count:
        partition.on_fetched(records(0, count))
    return partition


def ack(offset: int) -> Ack:
    return Ack(*KEY, offset, is_through=False)


@pytest.fixture
def acks() -> Acks:
    metrics = TriggerMetrics(MetricRegistry(), "", "f", "kafka-cluster", "t")
    policy = DeliveryPolicy(ack_mode=AckMode.EXPLICIT_ONLY)
    return Acks(policy, metrics, end_of=lambda partition: partition.ledger.position)


def test_an_ack_of_a_record_that_is_still_to_come_is_refused(acks: Acks) -> None:
    partition = fetched(3)
    acks.begin([partition])
    assert acks.take(ack(3)) is None
    assert acks.take(ack(2)) is partition
    partition.on_fetched(records(3, 1))
    assert partition.ledger.is_open(3)


def test_acks_that_come_before_a_start_is_known_count_once_it_is(acks: Acks) -> None:
    acks.on_assigned([KEY])
    assert acks.take(ack(1)) is None
    partition = fetched(3)
    assert acks.begin([partition]) == [partition]
    assert partition.checkpoint == Checkpoint(0, acked=((1, 2),))


def test_what_has_left_is_not_acked_here_and_what_stays_is(acks: Acks) -> None:
    other = Ack("t", 1, 0, is_through=False)
    acks.begin([fetched(3)])
    acks.on_assigned([PartitionKey("t", 1)])
    assert acks.has(ack(0))
    acks.on_revoked([KEY])
    assert [acks.has(ack(0)), acks.has(other)] == [False, True]
    acks.on_revoked(None)
    assert not acks.has(other)


@dataclass
class Trigger:
    """It has, or had, these, and takes what it is told of them."""

    owned: set[PartitionKey]
    had: set[PartitionKey] = field(default_factory=set)
    taken: list[int] = field(default_factory=list)
    takes_acks = True

    def log_of(self, key: PartitionKey) -> str:
        return ""

    def has_had(self, key: PartitionKey) -> bool:
        return key in self.owned | self.had

    def take(self, said: Ack | Nack) -> bool:
        if is_here := (said.topic, said.partition) in self.owned:
            self.taken.append(said.offset)
        return is_here

    def send_to_workers(self, frame: bytes) -> None:
        """It has none."""

    def sync_workers(self) -> None:
        """As above."""


def routed(triggers: Iterable[Trigger], sender: Trigger) -> list[list[int]]:
    router = AckRouter()
    for trigger in triggers:
        router.add(trigger)
    router.route(ack(7), sender)
    return [trigger.taken for trigger in triggers]


def test_what_a_worker_acks_of_its_own_group_counts_for_no_other() -> None:
    own, other = Trigger({KEY}), Trigger({KEY})
    assert routed([own, other], own) == [[7], []]


def test_nor_once_its_own_group_has_taken_it_away() -> None:
    own, other = Trigger(set(), had={KEY}), Trigger({KEY})
    assert routed([own, other], own) == [[], []]


def test_what_it_never_had_goes_to_who_has_it() -> None:
    own, other = Trigger(set()), Trigger({KEY})
    assert routed([own, other], own) == [[], [7]]

"""What decides on acks of a trigger, without workers."""

from headrace.runtime.config.delivery_policy import AckMode, DeliveryPolicy
from headrace.runtime.dispatch.allocators import PoolAllocator
from headrace.runtime.dispatch.failure_handler import FailureHandler
from headrace.runtime.dispatch.partition_acks import PartitionAcks
from headrace.runtime.dispatch.redelivery import Redelivery
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire.lease import Lease


def acks_alone() -> PartitionAcks:
    """Of a trigger with explicitOnly, whose partitions end where they were fetched to."""
    metrics = TriggerMetrics(MetricRegistry(), "", "f", "kafka-cluster", "t")
    policy = DeliveryPolicy(ack_mode=AckMode.EXPLICIT_ONLY)
    state = DispatcherState(policy, metrics, PoolAllocator(), Lease.create(1))
    failures = FailureHandler(state, _go_on)
    return PartitionAcks(state, failures, Redelivery(state, failures, _go_on), _go_on)


def _go_on(_: Lane) -> None:
    """Nobody hands it out."""

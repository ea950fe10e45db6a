"""The state that the parts of one dispatcher share. Each part mutates only what its docstring says."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.allocators import Allocator
from headrace.runtime.dispatch.interface import Feed, Output
from headrace.runtime.dispatch.run_sizer import RunSizer
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.wire.framing import FrameKind
from headrace.runtime.wire.lease import Lease
from headrace.runtime.workers.handle import WorkerHandle

NO_OUTPUTS: Mapping[str, Output] = {}


@dataclass(slots=True)
class DispatcherState:
    """Workers, partitions and lanes of one dispatcher, and decisions that need nothing else."""

    policy: DeliveryPolicy
    metrics: TriggerMetrics
    allocator: Allocator
    lease: Lease
    outputs: Mapping[str, Output] = field(default_factory=lambda: NO_OUTPUTS)
    """The function's outputs, by the names that messages have."""
    workers: list[WorkerHandle] = field(default_factory=list)
    partitions: dict[int, AssignedPartition] = field(default_factory=dict)
    """Partitions that began and were not revoked, by lane id. The dispatcher adds and removes them."""
    run_sizer: RunSizer = field(default_factory=RunSizer)
    feed: Feed = field(default_factory=Feed)
    dead_letter_writes: dict[int, asyncio.Task[bool]] = field(default_factory=dict)
    """Dead letters on their way, by lane id, which count as in flight. FailureHandler keeps them."""
    guest_metrics: dict[int, TriggerMetrics] = field(default_factory=dict)
    """Metrics of triggers that share the workers, by lane id. The dispatcher adds and removes them."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a lane has nothing in flight any more, something was acked, or a dead letter is written.

    Whoever waits for any of that (a revoke, a reload) clears the event first, then waits, then looks again.
    """

    def partition_of(self, lane: Lane) -> AssignedPartition | None:
        """Return the lane's partition; None if it has none, or that was revoked."""
        return self.partitions.get(lane.whole.id)

    def offer(self, lane: Lane) -> bool:
        """Offer the lane to workers if it may be handed out; return whether it wasn't offered already."""
        return lane.is_deliverable and self.allocator.offer(lane.ready())

    def offer_again(self, lane: Lane) -> None:
        """Offer the lane, and the one that stands for all keys of its partition: both may go on now."""
        self.offer(lane)
        if lane.whole is not lane:
            self.offer(lane.whole)

    def limit_of(self, partition: AssignedPartition) -> str:
        """Return what keeps more records from being handed out before some are settled, for people; or ''."""
        return self.feed.limit_of(partition)

    def on_room(self, lane: Lane) -> None:
        """Tell the feed that more or less of the lane's partition may be fetched now."""
        if (partition := self.partition_of(lane)) is not None:
            self.feed.on_room(partition)

    @property
    def idle_share(self) -> float:
        """The share of the workers that are ready and have nothing, from 0 to 1."""
        idle = [worker for worker in self.workers if not worker.in_flight.runs and worker.is_ready]
        return len(idle) / max(1, len(self.workers))

    def metrics_of(self, lane: Lane) -> TriggerMetrics:
        """Return the metrics of the trigger that the lane belongs to."""
        return self.guest_metrics.get(lane.id, self.metrics)

    def signal(self, kind: FrameKind, worker_indexes: Collection[int | None] = (None,)) -> None:
        """Have the user's callback for `kind` called in these workers; None among them is all workers."""
        for worker in self.workers:
            if None in worker_indexes or worker.index in worker_indexes:
                worker.signal(kind)

"""What the parts of one dispatcher share. Each part mutates only what its docstring says."""

import asyncio
from dataclasses import dataclass, field

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.allocators import Allocator
from headrace.runtime.dispatch.interface import Feed, NoFeed, Output
from headrace.runtime.dispatch.run_sizer import RunSizer
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.wire.lease import Lease
from headrace.runtime.workers.handle import WorkerHandle


@dataclass(slots=True)
class DispatcherState:
    """`partitions`: those that began and were not revoked, by lane; the dispatcher adds and removes them."""

    policy: DeliveryPolicy
    metrics: TriggerMetrics
    allocator: Allocator
    lease: Lease
    workers: list[WorkerHandle] = field(default_factory=list)
    partitions: dict[int, AssignedPartition] = field(default_factory=dict)
    run_sizer: RunSizer = field(default_factory=RunSizer)
    feed: Feed = field(default_factory=NoFeed)
    outputs: dict[str, Output] = field(default_factory=dict)
    """Where messages go that name one. Whoever makes the dispatcher adds them."""
    writes: dict[int, asyncio.Task[bool]] = field(default_factory=dict)
    """Dead letters on their way, by lane: they count as in flight. Failures adds and removes them."""
    guests: dict[int, TriggerMetrics] = field(default_factory=dict)
    """Of the triggers that share the workers, by lane. The dispatcher adds and removes them."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Some lane has nothing in flight any more, or something was acked, or a dead letter has gone out."""

    def partition_of(self, lane: Lane) -> AssignedPartition | None:
        """None where it has none, or that is over."""
        return self.partitions.get(lane.whole.id)

    def offer(self, lane: Lane) -> bool:
        """To workers, if it may be handed out; whether it wasn't offered already."""
        return lane.is_deliverable and self.allocator.offer(lane.ready())

    def offer_again(self, lane: Lane) -> None:
        """As `offer`, and its whole: there may be room for more of that."""
        self.offer(lane)
        if lane.whole is not lane:
            self.offer(lane.whole)

    def limit_of(self, partition: AssignedPartition) -> str:
        """What keeps more of it from being handed out before some is settled; empty where nothing does."""
        return self.feed.limit_of(partition)

    def on_room(self, lane: Lane) -> None:
        """How much of its partition may be fetched has changed; a lane without one fetches nothing."""
        if (partition := self.partition_of(lane)) is not None:
            self.feed.on_room(partition)

    @property
    def idle_share(self) -> float:
        """Of the workers, those that are ready and have nothing."""
        idle = [worker for worker in self.workers if not worker.in_flight.runs and worker.is_ready]
        return len(idle) / max(1, len(self.workers))

    def metrics_of(self, lane: Lane) -> TriggerMetrics:
        """Its trigger's."""
        return self.guests.get(lane.id, self.metrics)

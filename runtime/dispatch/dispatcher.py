"""Records to workers, outcomes to lanes: one dispatcher per trigger, on the processor's event loop.

All decisions are made synchronously: nothing can change between looking and acting. docs/design/delivery.md.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.ack_stalls import log_what_stays_open
from headrace.runtime.dispatch.allocators import Allocator
from headrace.runtime.dispatch.batch_scheduler import (
    BatchScheduler,
    EndSession,
    OrphanedSparkSessions,
    RunScheduler,
    Scheduler,
    no_session,
)
from headrace.runtime.dispatch.failure_handler import FailureHandler
from headrace.runtime.dispatch.interface import Feed
from headrace.runtime.dispatch.outcomes import Outcomes
from headrace.runtime.dispatch.partition_acks import PartitionAcks
from headrace.runtime.dispatch.produce_tracker import ProduceTracker
from headrace.runtime.dispatch.revoking import PartitionRevoker, Reloads
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.dispatch.stragglers import Stragglers
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.chunk import ChunkSlice
from headrace.runtime.partitions.key import PartitionKey, PartitionLog
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.record_buffer import sizes_of
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.records import FrameKind, WireRecord
from headrace.runtime.wire.undecoded import UndecodableRecord
from headrace.runtime.workers.handle import Spawn, WorkerHandle
from headrace.runtime.workers.watchdog import Watchdog

logger = logging.getLogger(__name__)


class Dispatcher:
    """Keeps interface.Dispatch. Owns the workers of one trigger, and every partition that it was given."""

    def __init__(  # noqa: PLR0913, PLR0917  # what a trigger is made of
        self,
        worker_count: int,
        spawn: Spawn,
        allocator: Allocator,
        policy: DeliveryPolicy,
        metrics: TriggerMetrics,
        lease: Lease,
        router: AckRouter | None = None,
        end_session: EndSession = no_session,
    ) -> None:
        shared = self._shared = DispatcherState(policy, metrics, allocator, lease)
        self.policy, self.lease, self.allocator = policy, lease, allocator
        self.worker_count = worker_count
        self.partitions = shared.partitions
        """Those that began and were not revoked, by the id of their lane."""
        self.outputs = shared.outputs
        """The function's, by name: to be added before the workers start."""
        self.run_sizer = shared.run_sizer
        self.worker_of = allocator.worker_of
        self.limit_of = shared.limit_of
        self._router = router or AckRouter()
        self._failures = FailureHandler(shared, self._resume)
        self._acks = PartitionAcks(shared, self._router, self._failures, self._resume)
        self._router.add(self._acks)
        self._watchdog = Watchdog(shared.workers, policy, metrics.timeouts.inc)
        self._produces = ProduceTracker(shared, self._acks.nacks, self.dispatch)
        outcomes = Outcomes(
            shared, self._failures, self._acks, self._produces, self.dispatch, self._watchdog.look_at_memory
        )
        self._produces.on_failed = outcomes.on_failed
        shared.workers += [
            WorkerHandle(index, spawn, outcomes, policy.max_concurrency) for index in range(worker_count)
        ]
        self.workers: Sequence[WorkerHandle] = shared.workers
        self._hand_out: Scheduler = (
            BatchScheduler(shared, policy.batch, self._failures.refuse, self.dispatch, end_session)
            if policy.batch
            else RunScheduler(shared, self._failures.refuse, self.dispatch)
        )
        self._revoking = PartitionRevoker(shared)
        self.hurry = self._revoking.hurry
        self.reload_workers = Reloads(shared).run
        self._old_sessions = OrphanedSparkSessions(end_session)
        self._stragglers = Stragglers(shared.workers, allocator, shared.run_sizer)
        # Of what has left, and may come back:
        self._left_unwritten: dict[PartitionKey, tuple[PartitionLog, set[int]]] = {}
        self._is_stopping = False
        self._is_dispatching = False

    @property
    def seats(self) -> int:
        """As Dispatch says."""
        return sum(worker.in_flight.seats for worker in self.workers)

    # ---- for the processor

    async def start(self) -> None:
        """Start all workers. Raises HandlerLoadError where the handler can't be loaded."""
        self._watchdog.start()
        self._acks.nacks.start()
        results = await asyncio.gather(*(w.start() for w in self.workers), return_exceptions=True)
        for failure in filter(None, results):
            raise failure

    def announce_stop(self) -> None:
        """The replica is about to stop: have the termination callbacks called, and no drain callbacks."""
        self._is_stopping = True
        self._signal(FrameKind.TERMINATE)

    async def stop(self, wait_seconds: float) -> None:
        """Stop all workers; those that still run something after `wait_seconds` are killed."""
        self._stragglers.stop()
        await self._hand_out.stop()
        await self._old_sessions.stop()
        await self._failures.stop()
        await self._acks.nacks.stop()
        await asyncio.gather(*(worker.stop(wait_seconds) for worker in self.workers))
        await self._watchdog.stop()

    def act(self, action: Literal["retry", "skip"], partition: AssignedPartition) -> str:
        """By an operator's hand, on a partition that is stuck; what was done."""
        return self._failures.act(action, partition)

    # ---- Dispatch: for the trigger

    def connect(self, feed: Feed) -> None:
        """Whom to ask about partitions."""
        self._shared.feed = feed

    def on_assigned(self, keys: Iterable[PartitionKey]) -> None:
        """These are ours now; `begin` follows."""
        self._acks.on_assigned(keys)
        self._router.on_changed()

    def begin(self, partitions: Sequence[AssignedPartition]) -> None:
        """Deliver these, besides those that are here."""
        self.partitions.update((partition.lane.id, partition) for partition in partitions)
        # Those too that are still to begin: a partition keeps its worker then.
        self.allocator.place({*self._acks.owned, *(partition.key for partition in self.partitions.values())})
        self._old_sessions.end(partitions, {worker.spark_session_id for worker in self.workers})
        for partition in partitions:
            self._failures.begin(partition)
            log, unwritten = self._left_unwritten.pop(partition.key, (partition.log, ()))
            here = (offset for offset in unwritten if partition.log.has(log.stamp, offset))
            partition.unwritten.begin(here, partition.ledger)
        self._acks.begin(partitions)
        self._router.on_changed()

    def restart(self, partition: AssignedPartition) -> None:
        """One partition begins anew; it keeps its place."""
        self._left_unwritten.pop(partition.key, None)  # of the log before
        self.partitions[partition.lane.id] = partition
        self._failures.begin(partition)
        self._acks.begin([partition])
        self._router.on_changed()  # it may be another log

    def add(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """Records were fetched. Call `dispatch` once all partitions of a fetch are added."""
        partition.lane.note_arrival(time.monotonic())
        partition.on_fetched(records)
        if not isinstance(records, ChunkSlice) and UndecodableRecord in map(type, records):
            for record in records:
                if isinstance(record, UndecodableRecord):
                    partition.refuse(record, record.why)
        limit = self.policy.fetch_max_bytes
        if limit is not None and max(sizes := sizes_of(records), default=0) > limit:
            for record, size in zip(records, sizes, strict=True):
                if size > limit:
                    partition.refuse(record, f"it has {size} bytes, more than fetchMax ({limit}) allows")
        self.submit(partition.lane)

    def extend(self, partition: AssignedPartition, end: int) -> None:
        """The log of a partition whose records aren't fetched ends at `end` now. Call `dispatch` at last."""
        if end > partition.ledger.position:
            partition.lane.note_arrival(time.monotonic())
            partition.extend(end)
            self.submit(partition.lane)

    def submit(self, lane: Lane, guest: TriggerMetrics | None = None) -> None:
        """It has something to hand out, perhaps of a trigger that shares the workers. `dispatch` follows."""
        if guest is not None:
            self._shared.guests[lane.id] = guest
        assert not self.policy.batch or lane.id in self.partitions, "batches are planned by partition"
        if not lane.in_flight_count:
            self.allocator.offer(lane)

    def pause(self, lane: Lane) -> None:
        """What runs of it takes so long that fetching more is of no use."""
        if (partition := self.partitions.get(lane.id)) is not None:  # else others of it go on
            partition.is_paused = True
            self._shared.feed.on_room(partition)

    def forget(self, lane: Lane) -> None:
        """Workers needn't know it any more."""
        self._shared.guests.pop(lane.id, None)
        for worker in self.workers:
            worker.outbox.forget(lane)

    def take_reply(self, lane: Lane, byte_count: int) -> None:
        """So many bytes of its answer's parts were taken."""
        if lane.in_flight_count and lane.worker_index is not None:
            self.workers[lane.worker_index].outbox.take_reply(lane, byte_count)

    def recall(self, lane: Lane, *, cancels: bool = False) -> None:
        """What hasn't started of it comes back."""
        if lane.in_flight_count and lane.worker_index is not None:
            worker = self.workers[lane.worker_index]
            (worker.withdraw if cancels else worker.recall)(lane)

    def dispatch(self) -> None:
        """Give every worker that has room its next records, in turn, the emptiest first."""
        if self._is_dispatching:
            return  # a decision made below has freed something: the loop goes on until nobody takes any more
        if self.lease.is_over:
            return  # somebody else may have been given the records; its trigger says how it goes on
        if self._produces.holds_up():
            return  # it calls this once there is room again
        self._is_dispatching = True
        try:
            takers = [worker for worker in self.workers if worker.takes_more]
            while takers:
                takers.sort(key=lambda worker: len(worker.in_flight))
                takers = [worker for worker in takers if self._hand_out.give(worker)]
            for worker in self.workers:
                worker.outbox.flush()  # all that it was sent here leaves in one write, and wakes it once
        finally:
            self._is_dispatching = False
        self._stragglers.watch()

    async def revoke(
        self, partitions: Collection[AssignedPartition], wait_seconds: float, late_ack_seconds: float = 0
    ) -> None:
        """Take partitions away for good: recall, wait, kill. Returns when nothing of them is in flight.

        What finishes within `wait_seconds` is settled; what doesn't stays open. After that, what has been
        handled may be acked for `late_ack_seconds`. All workers that may have had their records are told to
        drain, idle ones too: background tasks of theirs may work for a record that has returned.
        """
        self._revoking.recall(partitions)
        for partition in partitions:
            self._failures.forget(partition)
        if not self._is_stopping:
            self._signal(FrameKind.DRAIN, {self.worker_of(partition.key) for partition in partitions})
        await self._revoking.end(partitions, wait_seconds)
        await self._revoking.confirmed(partitions, wait_seconds)
        await self._revoking.late_acks(partitions, late_ack_seconds)
        self.sync_progress()  # acks that workers have sent by now
        log_what_stays_open(partitions)
        for partition in partitions:
            if unwritten := {*partition.unwritten, *partition.held.unwritten()}:
                self._left_unwritten[partition.key] = partition.log, unwritten
            self._acks.end(partition)
            self.partitions.pop(partition.lane.id, None)
            self.forget(partition.lane)

    def on_revoked(self, keys: Iterable[PartitionKey] | None) -> None:
        """These, or all, are over: acks are refused until they are assigned again."""
        self._acks.on_revoked(keys)
        self.allocator.place(self._acks.owned)
        self._router.on_changed()

    def cut_off(self, partition: AssignedPartition, why: str) -> None:
        """What follows in it can't be fetched; what was fetched is handed out."""
        partition.why_cut_off = why
        self.dispatch()
        message = "%s is halted at offset %d: %s; nothing is committed past it"
        logger.error(message, partition, partition.ledger.position, why)

    def sync_progress(self) -> None:
        """Settle what workers have finished or acked but not reported yet: to be called before a commit."""
        self._router.sync()

    # ---- inside

    def _resume(self, lane: Lane) -> None:
        if (partition := self._shared.partition_of(lane)) is not None and partition.unacked.has_orphans:
            self._acks.redeliver(partition)
        self._shared.offer_again(lane)
        self._shared.on_room(lane)
        self.dispatch()

    def _signal(self, kind: FrameKind, indexes: Collection[int | None] = (None,)) -> None:
        """To these; None is all of them."""
        for worker in self.workers:
            if None in indexes or worker.index in indexes:
                worker.signal(kind)

"""Records to workers, outcomes to lanes: one dispatcher per trigger, on the processor's event loop.

All decisions are made synchronously: nothing can change between looking and acting. docs/design/delivery.md.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.allocators import allocator_of
from headrace.runtime.dispatch.batch_scheduler import (
    BatchScheduler,
    EndSession,
    end_orphaned_sessions,
    no_session,
)
from headrace.runtime.dispatch.failure_handler import FailureHandler
from headrace.runtime.dispatch.interface import Feed, Output
from headrace.runtime.dispatch.outcomes import Outcomes
from headrace.runtime.dispatch.partition_acks import PartitionAcks
from headrace.runtime.dispatch.redelivery import Redelivery
from headrace.runtime.dispatch.revoking import PartitionRevoker, log_unacked, reload_workers
from headrace.runtime.dispatch.run_scheduler import RunScheduler
from headrace.runtime.dispatch.state import NO_OUTPUTS, DispatcherState
from headrace.runtime.dispatch.stragglers import Stragglers
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey, PartitionLog
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.tasks import end_tasks
from headrace.runtime.wire.framing import FrameKind
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.workers.handle import Spawn, WorkerHandle
from headrace.runtime.workers.watchdog import Watchdog

logger = logging.getLogger(__name__)


class Dispatcher:
    """Owns the workers of one trigger, and all partitions that it was given. Implements Dispatch."""

    def __init__(  # noqa: PLR0913, PLR0917  # what a trigger is made of
        self,
        worker_count: int,
        spawn: Spawn,
        policy: DeliveryPolicy,
        metrics: TriggerMetrics,
        lease: Lease,
        router: AckRouter | None = None,
        end_session: EndSession = no_session,
        outputs: Mapping[str, Output] = NO_OUTPUTS,
    ) -> None:
        """`router` and `outputs`, by name, are the function's, which its triggers share."""
        allocator = allocator_of(policy, worker_count)
        state = self._state = DispatcherState(policy, metrics, allocator, lease, outputs)
        self.policy, self.lease, self.allocator = policy, lease, allocator
        self.worker_count = worker_count
        self.partitions = state.partitions
        """Partitions that began and were not revoked, by the id of their lane."""
        self.run_sizer = state.run_sizer
        self.worker_of = allocator.worker_of
        self.limit_of = state.limit_of
        self._end_session = end_session
        self._failures = FailureHandler(state, self._resume)
        self._redelivery = Redelivery(state, self._failures, self._resume)
        self._acks = PartitionAcks(state, self._failures, self._redelivery, self._resume)
        self._router = router or AckRouter()
        self._router.add(self._acks)
        self._watchdog = Watchdog(state.workers, policy, metrics.timeouts.inc)
        outcomes = Outcomes(
            state,
            self._router,
            self._acks,
            self._failures,
            self._redelivery,
            self.dispatch,
            self._watchdog.look_at_memory,
        )
        self._produces = outcomes.produces
        state.workers += [
            WorkerHandle(index, spawn, outcomes, policy.max_concurrency) for index in range(worker_count)
        ]
        self.workers: Sequence[WorkerHandle] = state.workers
        self._scheduler: BatchScheduler | RunScheduler = (
            BatchScheduler(state, policy.batch, self._failures.refuse, self.dispatch, end_session)
            if policy.batch
            else RunScheduler(state, self._failures.refuse, self.dispatch)
        )
        self._revoker = PartitionRevoker(state)
        self._stragglers = Stragglers(state.workers, allocator, state.run_sizer)
        self._session_ends: list[asyncio.Task[None]] = []
        # Offsets whose messages weren't written when their partition left: should it come back, no earlier
        # ack counts for them.
        self._left_unwritten: dict[PartitionKey, tuple[PartitionLog, set[int]]] = {}
        self._is_stopping = False
        self._is_dispatching = False

    @property
    def seats(self) -> int:
        """How many records may be in handlers at once: of a worker that is starting, one."""
        return sum(worker.in_flight.seats for worker in self.workers)

    # ---- for the processor

    async def start(self) -> None:
        """Start all workers. Raises HandlerLoadError if the handler can't be loaded."""
        self._watchdog.start()
        self._redelivery.start()
        # All are waited for, so that the first failure leaves none of the others amid its start.
        results = await asyncio.gather(*(w.start() for w in self.workers), return_exceptions=True)
        for failure in filter(None, results):
            raise failure

    def announce_stop(self) -> None:
        """Have the termination callbacks called, and no drain callbacks: the replica is about to stop."""
        self._is_stopping = True
        self._state.signal(FrameKind.TERMINATE)

    async def stop(self, wait_seconds: float) -> None:
        """Stop all workers; those that still run something after `wait_seconds` are killed."""
        self._stragglers.stop()
        # What hands out and what recalls stops before the workers do.
        await self._scheduler.stop()
        await end_tasks(self._session_ends)
        await self._failures.stop()
        await self._redelivery.stop()
        await asyncio.gather(*(worker.stop(wait_seconds) for worker in self.workers))
        await self._watchdog.stop()

    def act(self, action: Literal["retry", "skip"], partition: AssignedPartition) -> str:
        """Retry or skip, for an operator, the record at which a partition is stuck; return what was done."""
        return self._failures.act(action, partition)

    async def reload_workers(self) -> None:
        """Return once each worker has another process, started between two of its records."""
        await reload_workers(self._state)

    # ---- Dispatch: for the trigger

    def connect(self, feed: Feed) -> None:
        """Ask `feed` about partitions from now on."""
        self._state.feed = feed

    def on_assigned(self, keys: Iterable[PartitionKey]) -> None:
        """Take acks for these partitions from now on; the acks wait until the partitions `begin`."""
        self._acks.on_assigned(keys)
        self._router.on_changed()

    def begin(self, partitions: Sequence[AssignedPartition]) -> None:
        """Deliver these partitions, besides those that are here."""
        # Not by key: outcomes of an older assignment of a partition have another lane, and find nothing.
        self.partitions.update((partition.lane.id, partition) for partition in partitions)
        # Owned partitions that are still to begin are placed too, so they keep their workers when they do.
        self.allocator.place({*self._acks.owned, *(partition.key for partition in self.partitions.values())})
        own = {worker.spark_session_id for worker in self.workers}
        running = [task for task in self._session_ends if not task.done()]
        self._session_ends = [*running, *end_orphaned_sessions(partitions, own, self._end_session)]
        for partition in partitions:
            self._failures.begin(partition)
            log, unwritten = self._left_unwritten.pop(partition.key, (partition.log, ()))
            here = (offset for offset in unwritten if partition.log.has(log.stamp, offset))
            partition.pending.restore_rejected(here, partition.ledger)
        self._acks.begin(partitions)
        # Only now has each of them a log whose stamp workers can be told: it was empty in `on_assigned`.
        self._router.on_changed()

    def restart(self, partition: AssignedPartition) -> None:
        """Deliver a new object for a partition that was revoked alone; it keeps its worker."""
        self._left_unwritten.pop(partition.key, None)  # offsets of the log before
        self.partitions[partition.lane.id] = partition
        self._failures.begin(partition)
        self._acks.begin([partition])
        self._router.on_changed()  # it may be another log

    def add(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> int:
        """Add records that were fetched. Call `dispatch` once all partitions of a fetch are added.

        Returns about how many bytes each of them takes while it waits; 0 if none has to wait.
        """
        record_bytes = partition.on_fetched(records, self.policy.fetch_max_bytes, time.monotonic())
        self.submit(partition.lane)
        return record_bytes

    def extend(self, partition: AssignedPartition, end: int) -> None:
        """Add the offsets up to `end`, of a partition whose records aren't fetched. `dispatch` follows."""
        if end > partition.ledger.position:
            partition.extend(end, time.monotonic())
            self.submit(partition.lane)

    def submit(self, lane: Lane, guest_metrics: TriggerMetrics | None = None) -> None:
        """Offer a lane that has something to hand out. `dispatch` follows.

        `guest_metrics`: if the lane is of a trigger that shares the workers, the metrics of that one.
        """
        if guest_metrics is not None:
            self._state.guest_metrics[lane.id] = guest_metrics
        assert not self.policy.batch or lane.id in self.partitions, "batches are planned by partition"
        if not lane.in_flight_count:
            self.allocator.offer(lane)

    def pause(self, lane: Lane) -> None:
        """Fetch no more of the lane's partition before its running record ends, which takes long."""
        # Not for the lane of one key of several: the others go on.
        if (partition := self.partitions.get(lane.id)) is not None:
            partition.is_paused = True
            self._state.feed.on_room(partition)

    def forget(self, lane: Lane) -> None:
        """Have workers forget a lane of which nothing is in flight, and nothing comes again."""
        self._state.guest_metrics.pop(lane.id, None)
        for worker in self.workers:
            worker.sender.forget(lane)

    def take_reply(self, lane: Lane, byte_count: int) -> None:
        """Tell the lane's worker that so many bytes of its answer's parts were taken in all."""
        if lane.in_flight_count and lane.worker_index is not None:
            self.workers[lane.worker_index].sender.take_reply(lane, byte_count)

    def recall(self, lane: Lane, *, cancels: bool = False) -> None:
        """Have a lane's records back that haven't started; with `cancels`, also cancel the one that runs."""
        if lane.in_flight_count and lane.worker_index is not None:
            worker = self.workers[lane.worker_index]
            (worker.withdraw if cancels else worker.recall)(lane)

    def dispatch(self) -> None:
        """Give every worker that has room its next records, in turn, the emptiest first."""
        if self._is_dispatching:
            return  # called from the loop below, which goes on until no worker takes any more
        if self.lease.is_over:
            return  # somebody else may have been given the records; its trigger says how it goes on
        if self._produces.is_held_up():
            return  # ProduceTracker calls `dispatch` once there is room again
        self._is_dispatching = True
        try:
            takers = [worker for worker in self.workers if worker.takes_more]
            while takers:
                # Anew each time: what was handed out has changed the order.
                takers.sort(key=lambda worker: len(worker.in_flight))
                takers = [worker for worker in takers if self._scheduler.hand_out(worker)]
            for worker in self.workers:
                worker.sender.flush()  # all that was sent above leaves in one write, and wakes it once
        finally:
            self._is_dispatching = False
        self._stragglers.watch()

    async def revoke(
        self, partitions: Collection[AssignedPartition], wait_seconds: float, late_ack_seconds: float = 0
    ) -> None:
        """Take partitions away for good: recall, wait, kill. Returns when nothing of them is in flight.

        Records that finish within `wait_seconds` are settled; the others stay open. After that, records that
        were handled may still be acked for `late_ack_seconds`.
        """
        # First, since the steps below wait: from here on nothing of these is handed out.
        self._revoker.recall(partitions)
        for partition in partitions:
            self._failures.forget(partition)
        if not self._is_stopping:
            # Also in idle workers that may have had these partitions: a background task may still work for a
            # record whose handler has returned.
            self._state.signal(FrameKind.DRAIN, {self.worker_of(partition.key) for partition in partitions})
        await self._revoker.end(partitions, wait_seconds)
        await self._revoker.confirmed(partitions, wait_seconds)
        await self._revoker.late_acks(partitions, late_ack_seconds)
        self.sync_progress()  # acks that workers have sent by now
        log_unacked(partitions)
        for partition in partitions:
            if unwritten := {*partition.pending.rejected, *partition.pending.unwritten()}:
                self._left_unwritten[partition.key] = partition.log, unwritten
            # Not before: acks that `sync_progress` takes in have to find their partition.
            self._acks.end(partition)
            self._redelivery.end(partition)
            self.partitions.pop(partition.lane.id, None)
            self.forget(partition.lane)

    def hurry(self, wait_seconds: float, late_ack_seconds: float) -> AbstractContextManager[None]:
        """Give revokes under way, within this context, no more than so much time from now."""
        return self._revoker.hurry(wait_seconds, late_ack_seconds)

    def on_revoked(self, keys: Iterable[PartitionKey] | None) -> None:
        """Refuse acks for these partitions (None: all), until they are assigned again."""
        self._acks.on_revoked(keys)
        # Not in `revoke`: a partition that only starts anew keeps its worker.
        self.allocator.place(self._acks.owned)
        self._router.on_changed()

    def cut_off(self, partition: AssignedPartition, why: str) -> None:
        """Halt a partition behind its fetched records, which are handed out; the next one is unreadable."""
        partition.why_cut_off = why
        self.dispatch()
        message = "%s is halted at offset %d: %s; nothing is committed past it"
        logger.error(message, partition, partition.ledger.position, why)

    def sync_progress(self) -> None:
        """Settle what workers have finished or acked but not reported yet: to be called before a commit."""
        self._router.sync()

    # ---- inside

    def _resume(self, lane: Lane) -> None:
        """Let a lane go on whose state has changed: have its orphans come again, and offer it to workers."""
        if (partition := self._state.partition_of(lane)) is not None and partition.awaiting_ack.has_orphans:
            self._redelivery.redeliver(partition)
        self._state.offer_again(lane)
        self._state.on_room(lane)
        self.dispatch()

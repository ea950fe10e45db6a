"""Records to workers, outcomes to ledgers: one dispatcher per trigger, on the processor's event loop.

Its trigger calls `assign`, `add`, `revoke`; its workers call the WorkerListener part. All decisions are made
synchronously, so nothing can change between looking and acting. DESIGN.md, "Dispatcher".
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

from headrace.runtime.config.delivery import AckMode, DeliveryPolicy
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.acks import Acks
from headrace.runtime.dispatch.allocators import Allocator
from headrace.runtime.dispatch.failures import Failures
from headrace.runtime.dispatch.feed import Feed, NoFeed
from headrace.runtime.dispatch.handout import Batches, EndSession, HandOut, Runs, no_session
from headrace.runtime.dispatch.old_sessions import OldSessions
from headrace.runtime.dispatch.run_sizer import RunSizer
from headrace.runtime.dispatch.stragglers import Stragglers
from headrace.runtime.errors import HeadraceError
from headrace.runtime.metrics import TriggerMetrics
from headrace.runtime.partitions.assigned import AssignedPartition, PartitionState
from headrace.runtime.partitions.buffer import record_bytes
from headrace.runtime.partitions.ranges import RangePartition
from headrace.runtime.wire.frames import Ack, Kind, WireRecord
from headrace.runtime.wire.lease import Lease
from headrace.runtime.workers.handle import REAP_SECONDS, Spawn, WorkerHandle
from headrace.runtime.workers.watchdog import Watchdog

logger = logging.getLogger(__name__)


class Dispatcher:
    """Owns the workers of one trigger and every AssignedPartition that it was given."""

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
        self.workers = [WorkerHandle(index, spawn, self) for index in range(worker_count)]
        self.allocator = allocator
        self.run_sizer = RunSizer()
        self.partitions: dict[int, AssignedPartition] = {}
        self.policy = policy
        self.lease = lease
        self._metrics = metrics
        self._acks = Acks(policy, metrics)
        self._router = router or AckRouter()
        self._router.add(self)
        self.feed = NoFeed()  # its trigger sets another
        self._failures = Failures(policy.failure, lambda: self._feed, metrics, self._resume)
        self._hand_out = self._choose_hand_out(end_session)
        self._old_sessions = OldSessions(end_session)
        # Nothing waits behind a batch.
        self._stragglers = Stragglers([] if policy.batch else self.workers, allocator)
        self._watchdog = Watchdog(self.workers, policy)
        self._news = asyncio.Event()  # some partition has nothing in flight any more, or was acked
        self._is_stopping = False
        self._is_dispatching = False

    def _choose_hand_out(self, end_session: EndSession) -> HandOut:
        refuse = self._failures.refuse
        if self.policy.batch is None:
            return Runs(self.allocator, self.run_sizer, refuse)
        return Batches(
            self.policy.batch,
            self.allocator,
            lambda: self._feed,
            refuse,
            self.dispatch,
            end_session,
            self.lease,
        )

    @property
    def feed(self) -> Feed:
        """Where the records come from; its trigger sets it."""
        return self._feed

    @feed.setter
    def feed(self, feed: Feed) -> None:
        self._feed = self._acks.feed = feed

    # ---- for the processor

    async def start(self) -> None:
        """Start all workers. Raises HandlerLoadError where the handler can't be loaded."""
        self._watchdog.start()
        results = await asyncio.gather(*(w.start() for w in self.workers), return_exceptions=True)
        for failure in filter(None, results):
            raise failure

    def announce_stop(self) -> None:
        """The replica is about to stop: have the termination callbacks called, and no drain callbacks."""
        self._is_stopping = True
        self._signal(Kind.TERMINATE)

    async def stop(self, wait_seconds: float) -> None:
        """Stop all workers; those that still run something after `wait_seconds` are killed."""
        self._stragglers.stop()
        await self._hand_out.stop()
        await self._old_sessions.stop()
        await self._failures.stop()
        await asyncio.gather(*(worker.stop(wait_seconds) for worker in self.workers))
        await self._watchdog.stop()

    # ---- for the trigger

    def own(self, keys: Iterable[tuple[str, int]]) -> None:
        """The group has given these (topic, partition), and no others; `assign` follows."""
        self._acks.own(keys)
        self._router.on_changed()

    def assign(self, partitions: Sequence[AssignedPartition]) -> None:
        """A new assignment has begun: these and no others."""
        self.partitions = {partition.id: partition for partition in partitions}
        self.allocator.place(partitions)
        self._old_sessions.end(partitions, {worker.spark_session_id for worker in self.workers})
        self._begin(partitions)
        self._router.on_changed()

    def join(self, partition: AssignedPartition) -> None:
        """One partition of the assignment begins anew; it keeps its place."""
        self.partitions[partition.id] = partition
        self._begin([partition])

    def _begin(self, partitions: Sequence[AssignedPartition]) -> None:
        for partition in partitions:
            self._failures.begin(partition)
        for partition in self._acks.begin(partitions):
            self._was_acked(partition)

    def add(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """Records were fetched. Call `dispatch` once all partitions of a fetch are added."""
        _note_arrival(partition)
        partition.on_fetched(records)
        if (limit := self.policy.fetch_max_bytes) is not None:
            for record in records:
                if (size := record_bytes(record)) > limit:
                    partition.refused(record, f"it has {size} bytes, more than fetchMax ({limit}) allows")
        self._offer(partition)

    def extend(self, partition: RangePartition, end: int) -> None:
        """The log of a partition whose records aren't fetched ends at `end` now. Call `dispatch` at last."""
        if end <= partition.ledger.position:
            return
        _note_arrival(partition)
        partition.extend(end)
        self._offer(partition)

    def dispatch(self) -> None:
        """Give every worker that has room its next records, in turn, the emptiest first."""
        if self._is_dispatching:
            return  # a decision made below has freed something: the loop goes on until nobody takes any more
        if self.lease.is_over:
            return  # somebody else may have been given the records; its trigger says how it goes on
        self._is_dispatching = True
        try:
            takers = [worker for worker in self.workers if worker.is_ready and not worker.is_straggling]
            while takers:
                takers.sort(key=lambda worker: len(worker.in_flight))
                takers = [worker for worker in takers if self._hand_out.give(worker)]
            for worker in self.workers:
                worker.flush()
        finally:
            self._is_dispatching = False
        self._stragglers.watch()

    async def revoke(
        self, partitions: Collection[AssignedPartition], wait_seconds: float, late_ack_seconds: float = 0
    ) -> None:
        """Take partitions away for good: recall, wait, kill. Returns when nothing of them is in flight.

        What finishes within `wait_seconds` is settled; what doesn't stays open. After that, what has been
        handled may be acked for `late_ack_seconds`. All workers are told to drain, idle ones too: background
        tasks of theirs may work for a record that has returned.
        """
        for partition in partitions:
            partition.revoke()
            self._failures.forget(partition)
            if partition.worker_index is not None and partition.in_flight_count:
                self.workers[partition.worker_index].recall(partition)
        if partitions and not self._is_stopping:
            self._signal(Kind.DRAIN)
        if not await self._quiet(partitions, wait_seconds):
            self._kill_workers_with(partitions)
            if not await self._quiet(partitions, REAP_SECONDS):
                raise HeadraceError("a worker survived SIGKILL: a process is stuck in the kernel")
        await self._until(lambda: not any(p.unacked for p in partitions), late_ack_seconds)
        self.sync_progress()  # acks that workers have sent by now
        for partition in partitions:
            self._acks.end(partition)
            self.partitions.pop(partition.id, None)
            for worker in self.workers:
                worker.forget(partition)

    def shorten_revoke(self, wait_seconds: float) -> None:
        """Handlers that a revoke under way waits for get `wait_seconds` from now, if it gives them more."""
        asyncio.get_running_loop().call_later(wait_seconds, self._kill_revoked)

    def disown(self) -> None:
        """The assignment is over: acks are refused until the next one."""
        self._acks.disown()
        self._router.on_changed()

    def cut_off(self, partition: AssignedPartition, why: str) -> None:
        """What follows in it can't be fetched; what was fetched is handed out."""
        partition.is_cut_off, partition.why_cut_off = True, why
        self.dispatch()
        offset = partition.ledger.position
        logger.error("%s is halted at offset %d: %s; nothing is committed past it", partition, offset, why)

    def sync_progress(self) -> None:
        """Settle what workers have finished or acked but not reported yet: to be called before a commit."""
        self._router.sync()

    def act(self, action: Literal["retry", "skip"], partition: AssignedPartition) -> str:
        """By an operator's hand, on a partition that is stuck; what was done."""
        offset, is_retry = partition.stuck_at, action == "retry"
        if not partition.is_stuck_in_a_record:
            (self._feed.retry_unreadable if is_retry else self._feed.skip_unreadable)(partition)
            return f"{partition}: offset {offset} is {'fetched once more' if is_retry else 'skipped'}"
        if partition.is_head_refused and is_retry:
            reason = partition.failed_records[offset].reason
            self._failures.retry(partition)
            return f"{partition}: offset {offset} is not delivered: {reason}"
        (self._failures.retry if is_retry else self._failures.skip)(partition)
        return f"{partition}: offset {offset} is {'delivered once more' if is_retry else 'skipped'}"

    # ---- AckTarget

    @property
    def takes_acks(self) -> bool:
        """Whether explicitAckMode allows them."""
        return self.policy.ack_mode.is_explicit

    @property
    def owned(self) -> Collection[tuple[str, int]]:
        """What the group has given."""
        return self._acks.owned

    def take_ack(self, ack: Ack) -> bool:
        """Decide on an explicit ack from any worker of the function, if its partition is ours."""
        if not self._acks.has(ack):
            return False
        partition = self._acks.take(ack)
        if partition is not None:
            self._recall_acked(partition, ack)
            self._was_acked(partition)
        return True

    def send_to_workers(self, frame: bytes) -> None:
        """To all that have a process."""
        for worker in self.workers:
            worker.send_frame(frame)

    def sync_workers(self) -> None:
        """Take in what its own workers have said and acked by now."""
        for worker in self.workers:
            worker.sync_progress()

    # ---- WorkerListener

    def on_started(self, worker: WorkerHandle) -> None:
        """A process was started for it."""
        worker.send_frame(self._router.owned_frame())

    def on_loaded(self, worker: WorkerHandle) -> None:
        """Its handler is imported: that may have taken too much."""
        self._watchdog.look_at_memory(worker)

    def on_measured(self, count: int, handler_ns: int) -> None:
        """Handlers took that long."""
        self.run_sizer.on_measured(count, handler_ns)
        self._metrics.handler_ms.inc(handler_ns / 1e6)

    def on_handled(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """Records succeeded."""
        if self.policy.ack_mode is AckMode.EXPLICIT_ONLY:
            partition.on_handled_unacked(records)
        else:
            partition.on_settled(records)
        self._metrics.handled_success.inc(len(records))
        self._freed(partition)

    def on_handled_unacked(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """A record succeeded, and its response says that somebody will ack it later."""
        partition.on_handled_unacked(records)
        self._metrics.handled_success.inc()
        self._freed(partition)

    def on_failed(
        self, partition: AssignedPartition, records: Sequence[WireRecord], reason: str, among: int
    ) -> None:
        """Records failed: later ones of their partition come back before they are tried again."""
        self._metrics.handled_failure.inc(len(records))
        first, last = _first_and_last(partition, records)
        attempt = partition.failed_records.attempt(first)
        if first == last:
            message = "%s offset %d failed at attempt %d; it stays uncommitted: %s"
            logger.error(message, partition, first, attempt, reason)
        else:
            message = "%s offsets %d to %d, in one batch, failed at attempt %d; they stay uncommitted: %s"
            logger.error(message, partition, first, last, attempt, reason)
        partition.on_failed(records, reason, among)
        self.on_returned(partition, records)

    def on_suspected(self, partition: AssignedPartition, records: Sequence[WireRecord], reason: str) -> None:
        """One of several records that had started has killed their worker."""
        logger.error(
            "%s offsets %d to %d stay uncommitted, which of them is to blame isn't known: %s",
            partition,
            *_first_and_last(partition, records),
            reason,
        )
        partition.on_suspected(records)
        self.on_returned(partition, records)

    def on_returned(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """Records are to be handed out again."""
        partition.on_returned(records)
        self._freed(partition)

    def on_acked(self, ack: Ack) -> None:
        """A handler acked, of whichever trigger."""
        self._router.route(ack)

    def on_changed(self) -> None:
        """One batch of news is over: hand out more."""
        self.dispatch()

    # ---- inside

    def _freed(self, partition: AssignedPartition) -> None:
        if not partition.in_flight_count:
            self._news.set()
            if partition.state is PartitionState.RETURNING:
                self._failures.decide(partition)
            elif partition.is_deliverable:
                self.allocator.offer(partition)
        self._feed.on_room(partition)

    def _was_acked(self, partition: AssignedPartition) -> None:
        self._news.set()
        if partition.state.waits_for_a_record and not partition.has_failed_waiting:
            self._failures.retry(partition)
        elif partition.is_deliverable and not (partition.in_flight_count or partition.is_queued):
            self._resume(partition)  # it had waited for this ack
        self._feed.on_room(partition)

    def _recall_acked(self, partition: AssignedPartition, ack: Ack) -> None:
        """What is acked and waits in a worker comes back, and is not handed out again."""
        if partition.in_flight_count and not partition.is_recalled and partition.worker_index is not None:
            worker = self.workers[partition.worker_index]
            first = 0 if ack.is_through or self.policy.is_cumulative else ack.first
            if worker.has_waiting(partition, first, ack.offset + 1):
                worker.recall(partition)

    def _offer(self, partition: AssignedPartition) -> None:
        if not partition.in_flight_count:
            self.allocator.offer(partition)

    def _resume(self, partition: AssignedPartition) -> None:
        if partition.is_deliverable:
            self.allocator.offer(partition)
        self._feed.on_room(partition)
        self.dispatch()

    def _signal(self, kind: Kind) -> None:
        for worker in self.workers:
            worker.signal(kind)

    async def _quiet(self, partitions: Iterable[AssignedPartition], wait_seconds: float) -> bool:
        return await self._until(lambda: not any(p.in_flight_count for p in partitions), wait_seconds)

    async def _until(self, is_so: Callable[[], bool], wait_seconds: float) -> bool:
        try:
            async with asyncio.timeout(wait_seconds):
                while not is_so():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return is_so()
        return True

    def _kill_revoked(self) -> None:
        self._kill_workers_with([p for p in self.partitions.values() if p.state is PartitionState.REVOKED])

    def _kill_workers_with(self, partitions: Iterable[AssignedPartition]) -> None:
        for worker in self._workers_with(partitions):
            self._metrics.workers_killed.inc()
            worker.kill()

    def _workers_with(self, partitions: Iterable[AssignedPartition]) -> list[WorkerHandle]:
        indexes = {p.worker_index for p in partitions if p.in_flight_count and p.worker_index is not None}
        return [self.workers[index] for index in sorted(indexes)]


def _first_and_last(partition: AssignedPartition, records: Sequence[WireRecord]) -> tuple[int, int]:
    """Offsets, for people."""
    spans = partition.spans_of(records)
    return spans[0][0], spans[-1][1] - 1


def _note_arrival(partition: AssignedPartition) -> None:
    """What a batch's time to wait is counted from. To be called before what has come waits."""
    partition.fetched_at = time.monotonic()
    if not partition.waiting:
        partition.waiting_since = partition.fetched_at

"""Records to workers, outcomes to ledgers: one dispatcher per trigger, on the processor's event loop.

Its trigger calls `assign`, `add`, `revoke`; its workers call the WorkerListener part. All decisions are made
synchronously, so nothing can change between looking and acting. DESIGN.md, "Dispatcher".
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from headrace.runtime.allocators import Allocator
from headrace.runtime.errors import HeadraceError
from headrace.runtime.metrics import TriggerMetrics
from headrace.runtime.pace import MAX_RUN_BYTES, Pace
from headrace.runtime.partition import AssignedPartition, Hold
from headrace.runtime.partition_ranges import describe_partitions
from headrace.runtime.retry import RetryPolicy
from headrace.runtime.stragglers import Stragglers
from headrace.runtime.wire import Kind, WireRecord
from headrace.runtime.worker_handle import REAP_SECONDS, Spawn, WorkerHandle

logger = logging.getLogger(__name__)


class Dispatcher:
    """Owns the workers of one trigger and every AssignedPartition that it was given."""

    def __init__(
        self,
        worker_count: int,
        spawn: Spawn,
        allocator: Allocator,
        retry: RetryPolicy,
        metrics: TriggerMetrics,
    ) -> None:
        self.workers = [WorkerHandle(index, spawn, self) for index in range(worker_count)]
        self.allocator = allocator
        self.pace = Pace()
        self.partitions: dict[int, AssignedPartition] = {}
        self.on_room: Callable[[AssignedPartition], None] = lambda _: None
        """Called when a partition's records were settled or dropped; its trigger sets it."""
        self._retry = retry
        self._metrics = metrics
        self._news = asyncio.Event()  # some partition has nothing in flight any more
        self._is_stopping = False
        self._stragglers = Stragglers(self.workers, allocator)
        self._long_reported: set[tuple[int, int]] = set()

    # ---- for the processor

    async def start(self) -> None:
        """Start all workers. Raises HandlerLoadError where the handler can't be loaded."""
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
        await asyncio.gather(*(worker.stop(wait_seconds) for worker in self.workers))

    # ---- for the trigger

    def assign(self, partitions: Sequence[AssignedPartition]) -> None:
        """A new assignment has begun: these and no others."""
        self.partitions = {partition.id: partition for partition in partitions}
        self._long_reported.clear()
        self.allocator.place(partitions)

    def join(self, partition: AssignedPartition) -> None:
        """One partition of the assignment begins anew; it keeps its place."""
        self.partitions[partition.id] = partition

    def add(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """Records were fetched. Call `dispatch` once all partitions of a fetch are added."""
        partition.fetched(records)
        if not partition.in_flight:
            self.allocator.offer(partition)

    def dispatch(self) -> None:
        """Give every worker that has room its next runs, one each in turn, the emptiest first."""
        takers = [worker for worker in self.workers if worker.is_ready and not worker.is_straggling]
        while takers:
            takers.sort(key=lambda worker: len(worker.in_flight))
            takers = [worker for worker in takers if self._hand_out(worker)]
        self._stragglers.watch()

    async def revoke(self, partitions: Collection[AssignedPartition], wait_seconds: float) -> None:
        """Take partitions away for good: recall, wait, kill. Returns when nothing of them is in flight.

        What finishes within `wait_seconds` is settled; what doesn't stays open. All workers are told to
        drain, idle ones too: background tasks of theirs may work for a record that has returned.
        """
        for partition in partitions:
            partition.revoke()
            if partition.worker_index is not None and partition.in_flight:
                self.workers[partition.worker_index].recall(partition)
        if partitions and not self._is_stopping:
            self._signal(Kind.DRAIN)
        if not await self._quiet(partitions, wait_seconds):
            for worker in self._workers_with(partitions):
                self._metrics.workers_killed.inc()
                worker.kill()
            if not await self._quiet(partitions, REAP_SECONDS):
                raise HeadraceError("a worker survived SIGKILL: a process is stuck in the kernel")
        for partition in partitions:
            self.partitions.pop(partition.id, None)
            for worker in self.workers:
                worker.forget(partition)

    def cut_off(self, partition: AssignedPartition, why: str) -> None:
        """What follows in it can't be fetched; what was fetched is handed out."""
        partition.is_cut_off = True
        self.dispatch()
        offset = partition.ledger.position
        logger.error("%s is halted at offset %d: %s; nothing is committed past it", partition, offset, why)

    def log_assignment(self) -> None:
        """Which partitions go to which worker."""
        by_worker: dict[int | None, list[tuple[str, int]]] = {}
        for partition in self.partitions.values():
            by_worker.setdefault(self.allocator.worker_of(partition), []).append(partition.key)
        for worker, keys in by_worker.items():
            where = f"any of {len(self.workers)} workers" if worker is None else f"worker {worker}"
            logger.info("assigned: %s -> %s", describe_partitions(keys), where)
        if not by_worker:
            logger.info("assigned: no partitions; this replica stands by")

    def sync_progress(self) -> None:
        """Settle what workers have finished but not reported yet: to be called before a commit."""
        for worker in self.workers:
            worker.sync_progress()

    def report_long_records(self, limit_seconds: float) -> None:
        """Log and count, once each, records that have run longer than `limit_seconds`."""
        for worker in self.workers:
            progress = worker.sync_progress()
            if progress is None or not progress.is_running:
                continue
            seconds = (time.monotonic_ns() - progress.since_ns) / 1e9
            found = worker.in_flight.find(progress.seq)
            if (
                found is None
                or seconds < limit_seconds
                or (found[0].id, found[1].offset) in self._long_reported
            ):
                continue
            self._long_reported.add((found[0].id, found[1].offset))
            self._metrics.long_records.inc()
            logger.warning(
                "%s offset %d has run for %.0f s, longer than maxProcessingTime; its partition waits",
                *(found[0], found[1].offset, seconds),
            )

    def status(self) -> list[dict[str, Any]]:
        """Each worker, for a status page: JSON types only."""
        return [self._worker_status(worker) for worker in self.workers]

    def _worker_status(self, worker: WorkerHandle) -> dict[str, Any]:
        progress = worker.sync_progress()
        found = worker.in_flight.find(progress.seq) if progress and progress.is_running else None
        assigned = [p.key for p in self.partitions.values() if self.allocator.worker_of(p) == worker.index]
        return {
            "index": worker.index,
            "pid": worker.pid,
            "state": worker.state.value,
            "restarts": worker.restarts,
            "inFlight": len(worker.in_flight),
            "running": f"{found[0]} offset {found[1].offset}" if found else None,
            "partitions": describe_partitions(assigned) if assigned else None,
        }

    # ---- WorkerListener

    def ready(self, worker: WorkerHandle) -> None:
        """A worker has loaded the handler."""

    def measured(self, count: int, handler_ns: int) -> None:
        """Handlers took that long."""
        self.pace.measured(count, handler_ns)
        self._metrics.handler_ms.inc(handler_ns / 1e6)

    def settled(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """Records succeeded."""
        partition.settled(records)
        self._metrics.handled_success.inc(len(records))
        self._freed(partition)

    def failed(self, partition: AssignedPartition, record: WireRecord, reason: str) -> None:
        """A record failed: later ones of its partition come back before it is tried again."""
        self._metrics.handled_failure.inc()
        logger.error(
            "%s offset %d failed at attempt %d; it stays uncommitted: %s",
            *(partition, record.offset, partition.attempt, reason),
        )
        partition.epoch += 1
        if partition.hold is Hold.NONE:
            partition.hold = Hold.RETURNING
        self.returned(partition, [record])

    def returned(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """Records are to be handed out again."""
        partition.came_back(records)
        self._freed(partition)

    def changed(self) -> None:
        """Hand out more."""
        self.dispatch()

    # ---- inside

    def _hand_out(self, worker: WorkerHandle) -> bool:
        """One run; False where it has no room or nothing is there for it."""
        if not self.pace.has_room(len(worker.in_flight)):
            return False
        partition = self._next_for(worker)
        if partition is None:
            return False
        worker.send(partition, partition.take(self.pace.run_length, MAX_RUN_BYTES))
        return True

    def _next_for(self, worker: WorkerHandle) -> AssignedPartition | None:
        partition = self.allocator.take(worker.index)
        if partition is not None:
            return partition
        # Nobody else may have the rest of what this worker is in: keep its queue from running dry.
        return next((run.partition for run in worker.in_flight.runs if run.partition.is_deliverable), None)

    def _freed(self, partition: AssignedPartition) -> None:
        if not partition.in_flight:
            self._news.set()
            if partition.hold is Hold.RETURNING:
                self._retry_or_halt(partition)
            elif partition.is_deliverable:
                self.allocator.offer(partition)
        self.on_room(partition)

    def _retry_or_halt(self, partition: AssignedPartition) -> None:
        wait = self._retry.wait_seconds(partition.attempt)
        head = partition.head
        assert head is not None, "the failed record has come back"
        if wait is None:
            partition.hold = Hold.HALTED
            logger.error(
                "%s is halted at offset %d after %d attempts: nothing of it is lost or committed past that "
                "record, the other partitions go on; restart the replica to try again",
                *(partition, head.offset, partition.attempt),
            )
            return
        partition.hold = Hold.BACKOFF
        partition.attempt += 1
        logger.info("%s offset %d is delivered again in %.1f s", partition, head.offset, wait)
        asyncio.get_running_loop().call_later(wait, self._resume, partition)

    def _resume(self, partition: AssignedPartition) -> None:
        if partition.hold is Hold.BACKOFF:
            partition.hold = Hold.NONE
            self.allocator.offer(partition)
            self.dispatch()

    def _signal(self, kind: Kind) -> None:
        for worker in self.workers:
            worker.signal(kind)

    async def _quiet(self, partitions: Iterable[AssignedPartition], wait_seconds: float) -> bool:
        try:
            async with asyncio.timeout(wait_seconds):
                while any(partition.in_flight for partition in partitions):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _workers_with(self, partitions: Iterable[AssignedPartition]) -> list[WorkerHandle]:
        indexes = {p.worker_index for p in partitions if p.in_flight and p.worker_index is not None}
        return [self.workers[index] for index in sorted(indexes)]

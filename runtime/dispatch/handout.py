"""How a worker gets records: runs of one partition, or batches. The dispatcher says when."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from headrace.runtime.config.delivery import BatchPolicy
from headrace.runtime.dispatch.allocators import Allocator
from headrace.runtime.dispatch.batcher import Batcher
from headrace.runtime.dispatch.feed import Feed
from headrace.runtime.dispatch.run_sizer import MAX_RUN_BYTES, RunSizer
from headrace.runtime.partitions.assigned import AssignedPartition, PartitionState
from headrace.runtime.tasks import start_task
from headrace.runtime.wire.lease import Lease
from headrace.runtime.workers.handle import WorkerHandle

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5
_MAX_PASSED = 100

Refuse = Callable[[AssignedPartition], None]
EndSession = Callable[[str], Awaitable[bool]]
"""End what runs in a Spark session; whether nothing of it runs any more."""


async def no_session(_: str) -> bool:
    """Where there is no Spark, nothing runs on it."""
    return True


class HandOut(Protocol):
    """Called by a dispatcher on its event loop."""

    def give(self, worker: WorkerHandle) -> bool:
        """Something, to a worker that is ready; False where it has no room or nothing is there for it."""

    async def stop(self) -> None:
        """Nothing more. Idempotent."""


class Runs:
    """Consecutive records of a partition, as many as keep a worker busy for a few milliseconds."""

    def __init__(self, allocator: Allocator, run_sizer: RunSizer, refuse: Refuse) -> None:
        self._allocator = allocator
        self._run_sizer = run_sizer
        self._refuse = refuse

    def give(self, worker: WorkerHandle) -> bool:
        """One run."""
        if not self._run_sizer.has_room(len(worker.in_flight)):
            return False
        partition = self._next_for(worker)
        if partition is None:
            return False
        if partition.is_head_refused:
            self._refuse(partition)
        else:
            worker.send(partition, partition.take(self._run_sizer.run_length, MAX_RUN_BYTES))
        return True

    def _next_for(self, worker: WorkerHandle) -> AssignedPartition | None:
        partition = self._take(worker)
        if partition is not None:
            return partition
        # Nobody else may have the rest of what this worker is in: keep its queue from running dry.
        return next((run.partition for run in worker.in_flight.runs if run.partition.is_deliverable), None)

    def _take(self, worker: WorkerHandle) -> AssignedPartition | None:
        """The one that has waited longest of those that suit it, or of all where it idles."""
        passed: list[AssignedPartition] = []
        while (partition := self._allocator.take(worker.index)) is not None and not worker.suits(partition):
            passed.append(partition)
            if len(passed) == _MAX_PASSED:
                partition = None
                break
        if partition is None and passed and not worker.in_flight.runs:
            partition = passed.pop(0)
        self._allocator.put_back(worker.index, passed)
        return partition

    async def stop(self) -> None:
        """It waits for nothing."""


class Batches:
    """One batch at a time per worker, each committed as a plan before the worker gets it."""

    def __init__(  # noqa: PLR0913, PLR0917  # what it asks others to do
        self,
        policy: BatchPolicy,
        allocator: Allocator,
        feed: Callable[[], Feed],
        refuse: Refuse,
        dispatch: Callable[[], None],
        end_session: EndSession,
        lease: Lease,
    ) -> None:
        self._lease = lease
        self._batcher = Batcher(policy)
        self._allocator = allocator
        self._feed = feed
        self._refuse = refuse
        self._dispatch = dispatch
        self._end_session = end_session
        self._planning: dict[int, asyncio.Task[None]] = {}  # by worker
        self._timer: asyncio.TimerHandle | None = None

    def give(self, worker: WorkerHandle) -> bool:
        """Plan a batch for it."""
        if worker.in_flight.runs or worker.index in self._planning:
            return False
        ready = self._allocator.ready(worker.index)
        if refused := [partition for partition in ready if partition.is_head_refused]:
            self._refuse(refused[0])
            return True
        choice = self._batcher.choose(ready, time.monotonic())
        if choice.look_again_seconds is not None:
            self._look_again(choice.look_again_seconds)
        if not choice.parts:
            return False
        for part in choice.parts:
            part.partition.plan_part(part.plan)
        self._allocator.ready(worker.index)  # what is planned leaves its queue, to come back at the end
        work = self._commit_and_send(worker, [(part.partition, part.plan.end) for part in choice.parts])
        self._planning[worker.index] = start_task(work, f"the batch for worker {worker.index}")
        return True

    async def stop(self) -> None:
        """Batches that are only planned are not handed out."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._planning.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _commit_and_send(
        self, worker: WorkerHandle, parts: Sequence[tuple[AssignedPartition, int]]
    ) -> None:
        """The plan must be safe before a record of it starts: else nobody could repeat the same batch."""
        session = worker.spark_session_id
        try:
            await self._end_old_sessions(parts, session)
            for partition, _ in parts:
                partition.plan_in(session)
            while (planned := _still_planned(parts)) and not await self._feed().commit(planned):  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(_RETRY_SECONDS)
        finally:
            del self._planning[worker.index]
        batch = []
        for partition, end in parts:
            if partition.state is not PartitionState.PLANNING:
                continue  # revoked meanwhile
            partition.state = PartitionState.ACTIVE
            is_there = worker.is_ready and worker.spark_session_id == session and not self._lease.is_over
            if is_there and (records := partition.take_below(end)):
                batch.append((partition, records))
            else:  # the worker has died, or the lease is over, or all of them were acked meanwhile
                self._allocator.offer(partition)
        if batch:
            worker.send_batch(batch)
        self._dispatch()

    async def _end_old_sessions(self, parts: Sequence[tuple[AssignedPartition, int]], new: str) -> None:
        """Before a batch comes again: what its last delivery runs on Spark must not end after this one."""
        plans = [partition.plan_to_repeat for partition in _still_planned(parts)]
        for session in {plan.session for plan in plans if plan is not None} - {"", new}:
            while not await self._end_session(session):  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(_RETRY_SECONDS)

    def _look_again(self, seconds: float) -> None:
        """Timers only move forward: a look too early costs nothing."""
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        if self._timer is None or self._timer.cancelled() or not loop.time() < self._timer.when() <= when:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(when, self._dispatch)


def _still_planned(parts: Collection[tuple[AssignedPartition, int]]) -> list[AssignedPartition]:
    return [partition for partition, _ in parts if partition.state is PartitionState.PLANNING]

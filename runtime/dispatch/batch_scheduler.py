"""Batches: a worker gets the records of one call, once a commit has told which they are."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from headrace.runtime.config.delivery_policy import BatchPolicy
from headrace.runtime.dispatch.batcher import choose_batch
from headrace.runtime.dispatch.plan_committer import RETRY_SECONDS, PlanCommitter, is_short_of_plans
from headrace.runtime.dispatch.run_scheduler import Refuse
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.partitions.offsets.checkpoint import PlannedBatches
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.tasks import end_tasks, start_task
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.sender import KEPT_SECONDS, Part

EndSession: TypeAlias = Callable[[str], Awaitable[bool]]
"""Ends all jobs in a Spark session, given its id, and returns whether none runs any more."""


async def no_session(_: str) -> bool:
    """Say that nothing runs in the session: there is no Spark."""
    return True


class BatchScheduler:
    """Hands out one batch of a partition at a time, each after a commit that tells of it: its plan.

    Full batches are planned ahead. Smaller batches, and batches on Spark, whose plan names a session, are
    chosen for a worker when their time has come.
    """

    def __init__(
        self,
        state: DispatcherState,
        policy: BatchPolicy,
        refuse: Refuse,
        dispatch: Callable[[], None],
        end_session: EndSession,
    ) -> None:
        self._state = state
        self._size = policy.size
        self._policy = policy
        self._plans = PlanCommitter(state.partitions, policy.size, self._commit, self._go_on)
        self._refuse = refuse
        self._dispatch = dispatch
        self._end_session = end_session
        self._planning: dict[int, asyncio.Task[None]] = {}  # by worker index: its batch is being committed
        # By lane id: since when the lane waits for the worker that has begun its chunk.
        self._waits_for_worker_since: dict[int, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def hand_out(self, worker: WorkerHandle) -> bool:
        """Send a worker a planned batch, or commit the plan of one; return False if neither is due."""
        if not self._has_room(worker):
            return False
        allocator = self._state.allocator
        if (lane := allocator.take(worker.index)) is None:
            return False
        partition, waited_seconds = self._state.partitions[lane.id], allocator.waited_seconds
        if self._is_cheapest_at(worker, partition) and self._send_planned(worker, partition, waited_seconds):
            return True
        # The head of the queue can't go now: look at all that wait, so that it holds up none of them.
        allocator.put_back(worker.index, [lane])
        waiting = [self._state.partitions[lane.id] for lane in allocator.prune(worker.index)]
        if refused := [partition for partition in waiting if partition.lane.is_head_refused]:
            self._refuse(refused[0], refused[0].lane)
            return True
        if not worker.spark_session_id and any(map(self._plans.plan_ahead, waiting)):
            self._plans.commit_ahead()
        is_planned = worker.index not in self._planning and self._plan(worker, waiting)
        # A worker that would only wait takes any batch, even one whose chunk it has to decode a second time.
        cheapest = [it for it in waiting if self._is_cheapest_at(worker, it)]
        chosen = cheapest if worker.in_flight.runs else [*cheapest, *waiting]
        return any(self._send_planned(worker, partition) for partition in chosen) or is_planned

    async def stop(self) -> None:
        """Hand out nothing more, not even what is planned. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        await end_tasks(self._planning.values())
        await self._plans.stop()

    def _has_room(self, worker: WorkerHandle) -> bool:
        """Whether the worker may have one more batch: one behind its first, or several if they are quick.

        Nothing goes behind a batch on Spark: a plan names its worker's session, which may be another one
        by then. Nor does anything with exactlyOnce.
        """
        in_flight = worker.in_flight
        if not in_flight.runs:
            return worker.index not in self._planning or not worker.spark_session_id
        if worker.spark_session_id or self._state.policy.exactly_once:
            return False
        return in_flight.has_one_batch or self._state.run_sizer.has_room(len(in_flight))

    def _is_cheapest_at(self, worker: WorkerHandle, partition: AssignedPartition) -> bool:
        """Whether the worker can have the partition's batch without decoding a chunk that another has begun.

        A batch that has waited for that other worker long enough goes to any worker.
        """
        lane = partition.lane
        chunk = lane.next_chunk
        if chunk is None or lane.next_offset == chunk.first or worker.sender.has_begun(chunk):
            return True
        now = time.monotonic()
        return now - self._waits_for_worker_since.setdefault(lane.id, now) > KEPT_SECONDS

    def _send_planned(
        self, worker: WorkerHandle, partition: AssignedPartition, waited_seconds: float = 0.0
    ) -> bool:
        """Send the partition's next batch, if a commit has told of it; return whether it was sent."""
        lane = partition.lane
        end = None if worker.spark_session_id else partition.plan.safe_end(lane.buffer.next_offset)
        if end is None or partition.missing_of_plan or not lane.is_deliverable or lane.is_head_refused:
            return False
        self._waits_for_worker_since.pop(lane.id, None)
        self._send(worker, [(lane, records) for records in lane.take_batch(end)], waited_seconds)
        if is_short_of_plans(partition, self._size):
            self._plans.commit_ahead()
        return True

    def _plan(self, worker: WorkerHandle, waiting: Collection[AssignedPartition]) -> bool:
        """Begin to commit, then send, a batch that no commit tells of yet; return whether there is one."""
        unplanned = [it for it in waiting if worker.spark_session_id or not self._has_plan(it)]
        choice = choose_batch(
            unplanned, self._policy, time.monotonic(), is_of_one_partition=self._state.policy.exactly_once
        )
        if choice.look_again_seconds is not None:
            self._dispatch_in(choice.look_again_seconds)
        if not choice.parts:
            return False
        parts = [(part.partition, part.plan) for part in choice.parts]
        for partition, plan in parts:
            # At once, not in the task below: no other worker's batch may take the same records.
            partition.propose(plan)
        # What is being planned isn't deliverable, so it leaves the queue; it is offered again once committed.
        self._state.allocator.prune(worker.index)
        work = self._commit_and_send(worker, parts)
        self._planning[worker.index] = start_task(work, f"the batch for worker {worker.index}")
        return True

    def _has_plan(self, partition: AssignedPartition) -> bool:
        """Whether a commit tells of the partition's next batch, or is about to."""
        next_offset = partition.lane.buffer.next_offset
        return partition.plan.safe_end(next_offset) is not None or self._plans.plan_ahead(partition)

    async def _commit_and_send(
        self, worker: WorkerHandle, parts: Sequence[tuple[AssignedPartition, PlannedBatches]]
    ) -> None:
        """Commit the plan, then send its batch.

        The order counts: nobody could repeat a batch, after a kill, that began before its plan was safe.
        """
        session = worker.spark_session_id
        try:
            await self._end_earlier_sessions(parts, session)
            for partition, _ in parts:
                partition.plan.name_session(partition.lane.buffer.next_offset, session)
            parts = await self._commit_plans(parts)
        finally:
            del self._planning[worker.index]
        batch: list[Part] = []
        for partition, plan in parts:
            lane = partition.lane
            if lane.state is not PartitionState.PLANNING:
                continue  # it was revoked meanwhile
            lane.become(PartitionState.ACTIVE)
            is_same = worker.takes_more and worker.spark_session_id == session and _is_next(lane, plan)
            if is_same and not self._state.lease.is_over and (taken := lane.take_batch(plan.end)):
                batch += [(lane, records) for records in taken]
            else:  # a worker has died, or the lease is over, or all of them were acked meanwhile
                self._state.allocator.offer(lane)
        if batch:
            self._send(worker, batch)
        self._dispatch()

    def _send(self, worker: WorkerHandle, batch: Sequence[Part], waited_seconds: float = 0.0) -> None:
        self._state.metrics.on_allocated(waited_seconds, self._state.idle_share)
        worker.sender.send_batch(batch)

    async def _commit_plans(
        self, parts: Sequence[tuple[AssignedPartition, PlannedBatches]]
    ) -> Sequence[tuple[AssignedPartition, PlannedBatches]]:
        """Try to commit the plans until some are safe, and return the parts that these are of."""
        while planned := _still_planned(parts):
            if safe := await self._plans.commit(planned):
                return [(partition, plan) for partition, plan in parts if partition in safe]
            await asyncio.sleep(RETRY_SECONDS)
        return parts

    async def _commit(self, planned: Collection[AssignedPartition]) -> bool:
        return await self._state.feed.commit(planned)

    def _go_on(self, partition: AssignedPartition) -> None:
        self._state.offer(partition.lane)
        self._dispatch()

    async def _end_earlier_sessions(
        self, parts: Sequence[tuple[AssignedPartition, PlannedBatches]], new: str
    ) -> None:
        """End the sessions that earlier deliveries of these batches have used, other than `new`.

        A job that still runs in such a session must not commit after the batch that comes again.
        """
        planned = _still_planned(parts)
        plans = [partition.plan.of(partition.lane.buffer.next_offset) for partition in planned]
        for session in {plan.session for plan in plans if plan is not None} - {"", new}:
            while not await self._end_session(session):  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(RETRY_SECONDS)

    def _dispatch_in(self, seconds: float) -> None:
        """Have `dispatch` called within so many seconds: a timer that is set for an earlier time stays."""
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        # One timer for all: `dispatch` looks at everything that waits, and whoever isn't due asks again.
        if self._timer is None or self._timer.cancelled() or not loop.time() < self._timer.when() <= when:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(when, self._dispatch)


def _is_next(lane: PartitionLane, plan: PlannedBatches) -> bool:
    """Whether the plan still goes next: no record below it has come back since."""
    offset = lane.buffer.next_offset
    return offset is not None and plan.first <= offset


def _still_planned(parts: Collection[tuple[AssignedPartition, PlannedBatches]]) -> list[AssignedPartition]:
    return [partition for partition, _ in parts if partition.lane.state is PartitionState.PLANNING]


def end_orphaned_sessions(
    partitions: Iterable[AssignedPartition], own: Collection[str], end_session: EndSession
) -> list[asyncio.Task[None]]:
    """Start a task for each Spark session of a dead owner that the partitions' plans name: it is ended.

    Done once for each assignment, and not for `own`, the sessions of workers here: the jobs of a dead owner
    would hold up the first batch. Before a batch is repeated, BatchScheduler makes sure that they have ended.
    """

    async def end(session: str) -> None:
        await end_session(session)

    named = {plan.session for partition in partitions if (plan := partition.plan.planned) is not None}
    return [start_task(end(it), f"the end of Spark session {it}") for it in named - {"", *own}]

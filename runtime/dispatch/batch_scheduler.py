"""How a worker gets records: runs of one lane, or batches. The dispatcher says when."""

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Protocol

from headrace.runtime.config.delivery_policy import BatchPolicy
from headrace.runtime.dispatch.batcher import Batcher
from headrace.runtime.dispatch.plan_committer import RETRY_SECONDS, PlanCommitter, is_short_of_plans
from headrace.runtime.dispatch.run_scheduler import Prefetcher
from headrace.runtime.dispatch.run_sizer import MAX_RUN_BYTES
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.partitions.flow_control import missing_of_plan
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.offsets.checkpoint import PlannedBatches
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.tasks import end_tasks, start_task
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.sender import KEPT_SECONDS, Part

logger = logging.getLogger(__name__)


_MAX_PASSED = 100


Refuse = Callable[[AssignedPartition, PartitionLane], None]


EndSession = Callable[[str], Awaitable[bool]]


"""End what runs in a Spark session; whether nothing of it runs any more."""


async def no_session(_: str) -> bool:
    """Where there is no Spark, nothing runs on it."""
    return True


class Scheduler(Protocol):
    """Called by a dispatcher on its event loop."""

    def give(self, worker: WorkerHandle) -> bool:
        """Something, to a worker that is ready; False where it has no room or nothing is there for it."""

    async def stop(self) -> None:
        """Nothing more. Idempotent."""


class RunScheduler:
    """Consecutive records of a lane, as many as keep a worker busy for a few milliseconds."""

    def __init__(self, shared: DispatcherState, refuse: Refuse, dispatch: Callable[[], None]) -> None:
        self._shared = shared
        self._refuse = refuse
        self._soon_free = Prefetcher(shared.run_sizer, dispatch)
        self._emptying: dict[int, Lane] = {}  # workers that get nothing until they may have what goes alone

    def give(self, worker: WorkerHandle) -> bool:
        """One run."""
        in_flight, sizer = worker.in_flight, self._shared.run_sizer
        if in_flight.runs and (in_flight.is_isolated or self._is_emptied(worker)):
            return False
        self._emptying.pop(worker.index, None)
        has_room = self._has_room(worker)
        lane = self._next_for(worker) if has_room else None
        waited_seconds = self._shared.allocator.waited_seconds if lane is not None else 0.0
        lane = lane or self._behind(worker, has_room)
        if lane is None:
            return False
        in_flight.is_isolated = in_flight.overlaps and lane.goes_alone
        part = lane.next_part()
        if isinstance(part, PartitionLane) and part.is_head_refused:
            self._refuse(self._shared.partitions[lane.id], part)
        else:
            self._shared.metrics_of(part).on_allocated(waited_seconds, self._shared.idle_share)
            worker.send(part, part.take(sizer.run_length, MAX_RUN_BYTES))
        if part is not lane:  # its other keys, after what waits beside them
            self._shared.offer(lane)
        return True

    def _has_room(self, worker: WorkerHandle) -> bool:
        """It runs less than it could, or will in a moment."""
        in_flight = worker.in_flight
        is_short = in_flight.has_free_seat or self._shared.run_sizer.has_room(len(in_flight), in_flight.seats)
        return is_short or self._soon_free.is_soon_free(worker)

    def _behind(self, worker: WorkerHandle, has_room: bool) -> Lane | None:
        """Nobody else may have the rest of what this worker is in: keep its queue from running dry.

        Where several run, each lane's own queue.
        """
        if worker.in_flight.overlaps:
            most = self._shared.run_sizer.run_length + 1
        else:
            most = sys.maxsize if has_room else 0
        lanes = (run.lane for run in worker.in_flight.runs if run.lane.in_flight_count < most)
        return next((lane for lane in lanes if lane.is_deliverable), None)

    def _may_have(self, worker: WorkerHandle, lane: Lane) -> bool:
        """One that may kill its worker goes alone: one worker runs empty for that, its own if it has one."""
        if not (worker.in_flight.overlaps and worker.in_flight.runs and lane.goes_alone):
            return worker.outbox.suits(lane)
        is_its_own = self._shared.allocator.worker_of(lane.key) is not None
        if is_its_own or not any(map(self._is_emptied, self._shared.workers)):
            self._emptying[worker.index] = lane
        return False

    def _is_emptied(self, worker: WorkerHandle) -> bool:
        """For what still waits."""
        lane = self._emptying.get(worker.index)
        return lane is not None and worker.is_ready and lane.is_deliverable and lane.goes_alone

    def _next_for(self, worker: WorkerHandle) -> Lane | None:
        """The one that has waited longest of those that suit it, or of all where it idles."""
        allocator, passed = self._shared.allocator, list[Lane]()
        while (lane := allocator.take(worker.index)) is not None and not self._may_have(worker, lane):
            passed.append(lane)
            if len(passed) == _MAX_PASSED:
                lane = None
                break
        if lane is None and passed and not worker.in_flight.runs:
            lane = passed.pop(0)
        if passed:
            allocator.put_back(worker.index, passed)
        return lane

    async def stop(self) -> None:
        """It waits for nothing."""
        self._soon_free.stop()


class BatchScheduler:
    """One batch of a partition at a time. A commit has told of it before its worker gets it.

    Full ones are planned ahead; what is none, and what names a Spark session, when its time has come.
    """

    def __init__(
        self,
        shared: DispatcherState,
        policy: BatchPolicy,
        refuse: Refuse,
        dispatch: Callable[[], None],
        end_session: EndSession,
    ) -> None:
        self._shared = shared
        self._size = policy.size
        self._batcher = Batcher(policy, is_of_one_partition=shared.policy.exactly_once)
        self._plans = PlanCommitter(shared.partitions, policy.size, self._commit, self._go_on)
        self._refuse = refuse
        self._dispatch = dispatch
        self._end_session = end_session
        self._planning: dict[int, asyncio.Task[None]] = {}  # by worker
        self._passed_at: dict[int, float] = {}  # lanes that wait for the worker that has their chunk
        self._timer: asyncio.TimerHandle | None = None

    def give(self, worker: WorkerHandle) -> bool:
        """A batch that is planned, or the plan of one."""
        if not self._has_room(worker):
            return False
        allocator = self._shared.allocator
        if (lane := allocator.take(worker.index)) is None:
            return False
        partition, waited_seconds = self._shared.partitions[lane.id], allocator.waited_seconds
        if self._is_at_home(worker, partition) and self._give_planned(worker, partition, waited_seconds):
            return True
        allocator.put_back(worker.index, [lane])
        waiting = [self._shared.partitions[lane.id] for lane in allocator.prune(worker.index)]
        if refused := [partition for partition in waiting if partition.lane.is_head_refused]:
            self._refuse(refused[0], refused[0].lane)
            return True
        if not worker.spark_session_id and any(map(self._plans.extend, waiting)):
            self._plans.tell()
        is_planned = worker.index not in self._planning and self._plan(worker, waiting)
        at_home = [it for it in waiting if self._is_at_home(worker, it)]
        chosen = at_home if worker.in_flight.runs else [*at_home, *waiting]
        return any(self._give_planned(worker, partition) for partition in chosen) or is_planned

    async def stop(self) -> None:
        """BatchScheduler that are only planned are not handed out."""
        if self._timer is not None:
            self._timer.cancel()
        await end_tasks(self._planning.values())
        await self._plans.stop()

    def _has_room(self, worker: WorkerHandle) -> bool:
        """For the one after the one that it is in, or as much as keeps it busy for some milliseconds.

        Nothing goes behind one on Spark: its session is named by a plan, and may be another one by then.
        """
        in_flight = worker.in_flight
        if not in_flight.runs:
            return worker.index not in self._planning or not worker.spark_session_id
        if worker.spark_session_id or self._shared.policy.exactly_once:
            return False
        return in_flight.has_one_batch or self._shared.run_sizer.has_room(len(in_flight))

    def _is_at_home(self, worker: WorkerHandle, partition: AssignedPartition) -> bool:
        """No other worker has begun its chunk, which would be decoded anew; or it waits long."""
        lane = partition.lane
        chunk = lane.next_chunk
        if chunk is None or lane.next_offset == chunk.first or worker.outbox.has_begun(chunk):
            return True
        now = time.monotonic()
        return now - self._passed_at.setdefault(lane.id, now) > KEPT_SECONDS

    def _give_planned(
        self, worker: WorkerHandle, partition: AssignedPartition, waited_seconds: float = 0.0
    ) -> bool:
        """Its next batch, if a commit has told of that."""
        lane = partition.lane
        end = None if worker.spark_session_id else partition.plan.safe_end(lane.buffer.next_offset)
        if end is None or missing_of_plan(partition) or not lane.is_deliverable or lane.is_head_refused:
            return False
        self._passed_at.pop(lane.id, None)
        self._send(worker, [(lane, records) for records in lane.take_batch(end)], waited_seconds)
        if is_short_of_plans(partition, self._size):
            self._plans.tell()
        return True

    def _plan(self, worker: WorkerHandle, waiting: Collection[AssignedPartition]) -> bool:
        """Commit, then send, what has no plan that is safe or about to be."""
        unplanned = [it for it in waiting if worker.spark_session_id or not self._has_plan(it)]
        choice = self._batcher.choose(unplanned, time.monotonic())
        if choice.look_again_seconds is not None:
            self._look_again(choice.look_again_seconds)
        if not choice.parts:
            return False
        parts = [(part.partition, part.plan) for part in choice.parts]
        for partition, plan in parts:
            partition.propose(plan)
        self._shared.allocator.prune(worker.index)  # what is planned comes back at the end
        work = self._commit_and_send(worker, parts)
        self._planning[worker.index] = start_task(work, f"the batch for worker {worker.index}")
        return True

    def _has_plan(self, partition: AssignedPartition) -> bool:
        """One that is safe, or about to be."""
        next_offset = partition.lane.buffer.next_offset
        return partition.plan.safe_end(next_offset) is not None or self._plans.extend(partition)

    async def _commit_and_send(
        self, worker: WorkerHandle, parts: Sequence[tuple[AssignedPartition, PlannedBatches]]
    ) -> None:
        """The plan must be safe before a record of it starts: else nobody could repeat the same batch."""
        session = worker.spark_session_id
        try:
            await self._end_old_sessions(parts, session)
            for partition, _ in parts:
                partition.plan.name_session(partition.lane.buffer.next_offset, session)
            parts = await self._commit_plans(parts)
        finally:
            del self._planning[worker.index]
        batch: list[Part] = []
        for partition, plan in parts:
            lane = partition.lane
            if lane.state is not PartitionState.PLANNING:
                continue  # revoked meanwhile
            lane.become(PartitionState.ACTIVE)
            is_same = worker.takes_more and worker.spark_session_id == session and _is_next(lane, plan)
            if is_same and not self._shared.lease.is_over and (taken := lane.take_batch(plan.end)):
                batch += [(lane, records) for records in taken]
            else:  # a worker has died, or the lease is over, or all of them were acked meanwhile
                self._shared.allocator.offer(lane)
        if batch:
            self._send(worker, batch)
        self._dispatch()

    def _send(self, worker: WorkerHandle, batch: Sequence[Part], waited_seconds: float = 0.0) -> None:
        self._shared.metrics.on_allocated(waited_seconds, self._shared.idle_share)
        worker.send_batch(batch)

    async def _commit_plans(
        self, parts: Sequence[tuple[AssignedPartition, PlannedBatches]]
    ) -> Sequence[tuple[AssignedPartition, PlannedBatches]]:
        """Wait until some are safe, and return those."""
        while planned := _still_planned(parts):
            if safe := await self._plans.commit(planned):
                return [(partition, plan) for partition, plan in parts if partition in safe]
            await asyncio.sleep(RETRY_SECONDS)
        return parts

    async def _commit(self, planned: Collection[AssignedPartition]) -> bool:
        return await self._shared.feed.commit(planned)

    def _go_on(self, partition: AssignedPartition) -> None:
        self._shared.offer(partition.lane)
        self._dispatch()

    async def _end_old_sessions(
        self, parts: Sequence[tuple[AssignedPartition, PlannedBatches]], new: str
    ) -> None:
        """Before a batch comes again: what its last delivery runs on Spark must not end after this one."""
        planned = _still_planned(parts)
        plans = [partition.plan.of(partition.lane.buffer.next_offset) for partition in planned]
        for session in {plan.session for plan in plans if plan is not None} - {"", new}:
            while not await self._end_session(session):  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(RETRY_SECONDS)

    def _look_again(self, seconds: float) -> None:
        """Timers only move forward: a look too early costs nothing."""
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        if self._timer is None or self._timer.cancelled() or not loop.time() < self._timer.when() <= when:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(when, self._dispatch)


def _is_next(lane: PartitionLane, plan: PlannedBatches) -> bool:
    """Nothing is to go before it that has come back since."""
    offset = lane.buffer.next_offset
    return offset is not None and plan.first <= offset


def _still_planned(parts: Collection[tuple[AssignedPartition, PlannedBatches]]) -> list[AssignedPartition]:
    return [partition for partition, _ in parts if partition.lane.state is PartitionState.PLANNING]


class OrphanedSparkSessions:
    """Tried once for each assignment. Whoever repeats a planned batch makes sure of it (handout.Batches)."""

    def __init__(self, end_session: Callable[[str], Awaitable[bool]]) -> None:
        self._end_session = end_session
        self._tasks: set[asyncio.Task[None]] = set()

    def end(self, partitions: Iterable[AssignedPartition], own: Collection[str]) -> None:
        """Those that the partitions' plans name, but for our workers' `own`."""
        named = {plan.session for partition in partitions if (plan := partition.plan.plan) is not None}
        for session in named - {"", *own}:
            task = start_task(self._end(session), f"the end of Spark session {session}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancel what is still tried."""
        await end_tasks(self._tasks)

    async def _end(self, session: str) -> None:
        await self._end_session(session)

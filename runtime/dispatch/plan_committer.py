"""Commits the plan of each batch before it is handed out; full batches are planned ahead."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from headrace.runtime.partitions.offsets.checkpoint import MOST_PLANNED
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.tasks import end_tasks, start_task

Commit = Callable[[Collection[AssignedPartition]], Awaitable[bool]]
RETRY_SECONDS = 0.5


class PlanCommitter:
    """Makes one commit ahead at a time, for all full batches that no commit tells of yet."""

    def __init__(
        self,
        partitions: Mapping[int, AssignedPartition],
        size: int,
        commit: Commit,
        go_on: Callable[[AssignedPartition], None],
    ) -> None:
        """`partitions`: by lane id. `go_on` is called with each whose batches may go, or be planned again."""
        self._partitions = partitions
        self._size = size
        self._commit = commit
        self._go_on = go_on
        self._ahead: asyncio.Task[None] | None = None
        self._in_commit: set[int] = set()  # lane ids of what that commit tells of
        self._refused: dict[int, asyncio.Task[None]] = {}  # by lane id: its commit was refused just now

    def plan_ahead(self, partition: AssignedPartition) -> bool:
        """Plan a partition's full batches; return whether a commit ahead tells of them, or is about to."""
        lane_id = partition.lane.id
        return lane_id in self._in_commit or lane_id in self._refused or extend_plan(partition, self._size)

    def commit_ahead(self) -> None:
        """Plan the full batches of all partitions, and commit these plans.

        Does nothing while a commit ahead is under way: its end has more handed out, and planned.
        """
        if self._ahead is not None:
            return
        free = [it for it in self._partitions.values() if it.lane.id not in self._refused]
        if full := [it for it in free if extend_plan(it, self._size)]:
            self._in_commit = {it.lane.id for it in full}
            self._ahead = start_task(self._commit_ahead(full), "the plans of full batches")

    async def commit(self, planned: Collection[AssignedPartition]) -> Collection[AssignedPartition]:
        """Commit the plans; return the partitions whose plans are safe then.

        A plan that is refused must not hold up the others: so plans that are refused together are tried one
        by one, and one that is refused by itself waits for a moment before its batch is planned again.
        """
        if await self._is_safe(planned):
            return planned
        if len(planned) == 1:
            return []
        safe = [it for it in planned if await self._is_safe([it])]
        for partition in set(planned).difference(safe) if safe else ():
            self._refused[partition.lane.id] = start_task(
                self._plan_again(partition), f"the next plan of {partition}"
            )
        return safe

    async def stop(self) -> None:
        """Commit no more. Idempotent."""
        await end_tasks([*filter(None, [self._ahead]), *self._refused.values()])

    async def _is_safe(self, planned: Collection[AssignedPartition]) -> bool:
        # A partition that was revoked meanwhile may be another replica's by now.
        here = [it for it in planned if it.lane.state is not PartitionState.REVOKED]
        # Noted before the commit, which takes a while: what is planned meanwhile may not be in it.
        told = [(partition.plan, partition.plan.told()) for partition in here]
        is_safe = await self._commit(here)
        if is_safe:
            for plan, said in told:
                plan.on_safe(said)
        return is_safe

    async def _commit_ahead(self, full: Collection[AssignedPartition]) -> None:
        try:
            if not await self.commit(full):
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._ahead = None
            self._in_commit.clear()
        for partition in full:
            self._go_on(partition)

    async def _plan_again(self, partition: AssignedPartition) -> None:
        await asyncio.sleep(RETRY_SECONDS)
        del self._refused[partition.lane.id]
        if partition.lane.state is PartitionState.PLANNING:
            partition.lane.become(PartitionState.ACTIVE)
        self._go_on(partition)


def extend_plan(partition: AssignedPartition, size: int) -> bool:
    """Plan the full batches that wait; return whether a commit has to tell of any before they go.

    Not if some records failed, which may have to go in smaller batches, nor on Spark, where batches are
    planned one by one.
    """
    lane, plan = partition.lane, partition.plan.planned
    is_short = lane.state is not PartitionState.ACTIVE or lane.buffer.count < size
    if is_short or (plan is not None and plan.session):
        return False
    if not partition.failed:
        above = lane.buffer.next_offset if plan is None else plan.last_end
        partition.plan.extend(lane.buffer.full_batches(size, above or 0))
    return not partition.plan.is_safe


def is_short_of_plans(partition: AssignedPartition, size: int) -> bool:
    """Whether less than half of the full batches that wait, and that a commit may tell of, are planned."""
    plan = partition.plan.planned
    planned = 0 if plan is None else len(plan.behind)
    return 2 * planned < min(partition.lane.buffer.count // size, MOST_PLANNED)

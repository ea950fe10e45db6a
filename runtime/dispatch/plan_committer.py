"""The commits that tell of batches before these go, full ones ahead of their turn."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from headrace.runtime.partitions.offsets.checkpoint import MOST_PLANNED
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.tasks import end_tasks, start_task

Commit = Callable[[Collection[AssignedPartition]], Awaitable[bool]]
RETRY_SECONDS = 0.5


class PlanCommitter:
    """One commit ahead at a time, for all partitions in which full batches wait that none has told of."""

    def __init__(
        self,
        partitions: Mapping[int, AssignedPartition],
        size: int,
        commit: Commit,
        go_on: Callable[[AssignedPartition], None],
    ) -> None:
        """`partitions` by lane. `go_on` is told whose batches may go now, or be planned again."""
        self._partitions = partitions
        self._size = size
        self._commit = commit
        self._go_on = go_on
        self._ahead: asyncio.Task[None] | None = None
        self._told: set[int] = set()  # lanes of which that commit tells
        self._held: dict[int, asyncio.Task[None]] = {}  # by lane: its commit was refused just now

    def extend(self, partition: AssignedPartition) -> bool:
        """Plan what is full in it; whether a commit ahead tells of what waits there, or is to in a moment."""
        lane_id = partition.lane.id
        return lane_id in self._told or lane_id in self._held or extend_plan(partition, self._size)

    def tell(self) -> None:
        """Plan what is full, in all partitions, and commit that.

        Not while a commit ahead is under way: its end asks for the next one.
        """
        if self._ahead is not None:
            return
        free = [it for it in self._partitions.values() if it.lane.id not in self._held]
        if full := [it for it in free if extend_plan(it, self._size)]:
            self._told = {it.lane.id for it in full}
            self._ahead = start_task(self._commit_ahead(full), "the plans of full batches")

    async def commit(self, planned: Collection[AssignedPartition]) -> Collection[AssignedPartition]:
        """Those whose plans are safe by one commit. One that is refused must not hold up the others.

        Where it is one of several it waits for a moment, of which `extend` knows.
        """
        if await self._is_safe(planned):
            return planned
        if len(planned) == 1:
            return []
        safe = [it for it in planned if await self._is_safe([it])]
        for partition in set(planned).difference(safe) if safe else ():
            self._held[partition.lane.id] = start_task(self._hold(partition), f"the next plan of {partition}")
        return safe

    async def stop(self) -> None:
        """No more commits."""
        await end_tasks([*filter(None, [self._ahead]), *self._held.values()])

    async def _is_safe(self, planned: Collection[AssignedPartition]) -> bool:
        here = [
            it for it in planned if it.lane.state is not PartitionState.REVOKED
        ]  # by now others may have it
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
            self._told.clear()
        for partition in full:
            self._go_on(partition)

    async def _hold(self, partition: AssignedPartition) -> None:
        await asyncio.sleep(RETRY_SECONDS)
        del self._held[partition.lane.id]
        if partition.lane.state is PartitionState.PLANNING:
            partition.lane.become(PartitionState.ACTIVE)
        self._go_on(partition)


def extend_plan(partition: AssignedPartition, size: int) -> bool:
    """Plan the full batches that wait; whether a commit has to tell of any before they go.

    What failed may have to go in smaller ones, and what names a Spark session is planned one by one.
    """
    lane, plan = partition.lane, partition.plan.plan
    is_short = lane.state is not PartitionState.ACTIVE or lane.buffer.count < size
    if is_short or (plan is not None and plan.session):
        return False
    if not partition.failed:
        above = lane.buffer.next_offset if plan is None else plan.last_end
        partition.plan.extend(lane.buffer.full_batches(size, above or 0))
    return not partition.plan.is_safe


def is_short_of_plans(partition: AssignedPartition, size: int) -> bool:
    """Less than half of the full batches that wait are planned, of as many as a commit may tell of."""
    plan = partition.plan.plan
    planned = 0 if plan is None else len(plan.behind)
    return 2 * planned < min(partition.lane.buffer.count // size, MOST_PLANNED)

"""Spark sessions of dead owners, ended when their partitions come: they would hold up every batch."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable

from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.tasks import end_tasks, start_task


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

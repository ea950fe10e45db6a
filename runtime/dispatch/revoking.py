"""Taking partitions away from workers: recall, wait, kill. docs/design/fencing-and-rebalance.md."""

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.errors import HeadraceError
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.workers.handle import REAP_SECONDS, WorkerHandle
from headrace.runtime.workers.process import ASK_SECONDS

_WHY_KILLED = "its partitions leave (a rebalance or a stop), and its handler has not ended in time"


class PartitionRevoker:
    """What is being revoked says so itself."""

    def __init__(self, shared: DispatcherState) -> None:
        self._shared = shared
        self._ends: list[float] = []  # by the event loop's clock, of all waits for what handlers have left

    def recall(self, partitions: Iterable[AssignedPartition]) -> None:
        """Nothing more of them is handed out, and what hasn't started is asked to come back."""
        for partition in partitions:
            partition.revoke()
            for lane in partition.lane.parts:
                if lane.worker_index is not None and lane.in_flight_count:
                    self._shared.workers[lane.worker_index].recall(lane)

    async def end(self, partitions: Collection[AssignedPartition], wait_seconds: float) -> None:
        """Return when nothing of them is in flight: handlers get `wait_seconds`, then workers are killed.

        The time is a promise to the group: it is not stretched by late acks, which are waited for after it.
        """
        ask_seconds = min(ASK_SECONDS, wait_seconds)
        if await self._quiet(partitions, wait_seconds - ask_seconds):
            return
        for worker in self._workers_with(partitions) if ask_seconds else ():
            worker.ask()  # within their time, which is the group's
        if await self._quiet(partitions, ask_seconds):
            return
        self._kill_workers_with(partitions)
        if not await self._quiet(partitions, REAP_SECONDS):
            raise HeadraceError("a worker survived SIGKILL: a process is stuck in the kernel")

    async def confirmed(self, partitions: Collection[AssignedPartition], wait_seconds: float) -> None:
        """Wait until all of theirs that is on its way is confirmed, or so long: else it comes again."""
        await self._until_hurried(lambda: not any(p.held.are_on_their_way for p in partitions), wait_seconds)

    async def late_acks(self, partitions: Collection[AssignedPartition], wait_seconds: float) -> None:
        """Wait until all that was handled is acked, or so long."""
        await self._until_hurried(lambda: not any(p.unacked for p in partitions), wait_seconds)

    @contextmanager
    def hurry(self, wait_seconds: float, late_ack_seconds: float) -> Iterator[None]:
        """As Dispatch says."""
        loop = asyncio.get_running_loop()
        kill = loop.call_later(wait_seconds, self._kill_revoked)
        end = loop.time() + wait_seconds + late_ack_seconds
        wake = loop.call_at(end, self._shared.news.set)
        self._ends.append(end)
        try:
            yield
        finally:
            self._ends.remove(end)
            kill.cancel()
            wake.cancel()

    def _kill_revoked(self) -> None:
        partitions = self._shared.partitions.values()
        self._kill_workers_with([p for p in partitions if p.lane.state is PartitionState.REVOKED])

    def _kill_workers_with(self, partitions: Collection[AssignedPartition]) -> None:
        for lane in _lanes_of(partitions):
            if (write := self._shared.writes.get(lane.id)) is not None:
                write.cancel()
        for worker in self._workers_with(partitions):
            if worker.kill(why=_WHY_KILLED):
                self._shared.metrics.workers_killed.inc()

    def _workers_with(self, partitions: Collection[AssignedPartition]) -> list[WorkerHandle]:
        held = {lane.worker_index for lane in _lanes_of(partitions) if lane.in_flight_count}
        return [worker for worker in self._shared.workers if worker.index in held]

    async def _quiet(self, partitions: Iterable[AssignedPartition], wait_seconds: float) -> bool:
        writes = self._shared.writes

        def is_busy(partition: AssignedPartition) -> bool:
            lane = partition.lane
            return lane.out_count > 0 or (bool(writes) and any(it.id in writes for it in lane.parts))

        return await self._until(lambda: not any(map(is_busy, partitions)), wait_seconds)

    async def _until_hurried(self, is_so: Callable[[], bool], wait_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        await self._until(lambda: is_so() or loop.time() >= min(self._ends, default=math.inf), wait_seconds)

    async def _until(self, is_so: Callable[[], bool], wait_seconds: float) -> bool:
        try:
            async with asyncio.timeout(wait_seconds):
                while not is_so():
                    self._shared.news.clear()
                    await self._shared.news.wait()
        except TimeoutError:
            return is_so()
        return True


def _lanes_of(partitions: Iterable[AssignedPartition]) -> Iterator[PartitionLane]:
    return (lane for partition in partitions for lane in partition.lane.parts)


_WHY = "its code has changed"


class Reloads:
    """Of one dispatcher. Owns no state: a worker that is about to go says so itself."""

    def __init__(self, shared: DispatcherState) -> None:
        self._shared = shared

    async def run(self) -> None:
        """Returns once each worker has another process, however long a record takes."""
        await asyncio.gather(*map(self._reload, self._shared.workers))

    async def _reload(self, worker: WorkerHandle) -> None:
        pid = worker.pid
        worker.retire()
        while worker.in_flight.runs and worker.pid == pid:
            self._shared.news.clear()
            await self._shared.news.wait()
        if worker.pid == pid:
            worker.restart(_WHY)

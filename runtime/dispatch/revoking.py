"""Taking partitions, or code, away from workers: recall, wait, kill. docs/design/fencing-and-rebalance.md."""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.errors import HeadraceError
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.workers.handle import REAP_SECONDS, WorkerHandle
from headrace.runtime.workers.process import DUMP_SECONDS

logger = logging.getLogger(__name__)

_WHY_KILLED = "its partitions leave (a rebalance or a stop), and its handler has not ended in time"
_WHY_RELOADED = "its code has changed"


class PartitionRevoker:
    """Ends what is in flight of partitions that leave.

    Keeps no list of them: a partition's own state says that it is being revoked.
    """

    def __init__(self, state: DispatcherState) -> None:
        self._state = state
        self._deadlines: list[float] = []  # of `hurry`, on the loop's clock: the earliest one counts

    def recall(self, partitions: Iterable[AssignedPartition]) -> None:
        """Hand out no more of these partitions, and recall their records that haven't started."""
        for partition in partitions:
            partition.revoke()
            for lane in partition.lane.parts:
                if lane.worker_index is not None and lane.in_flight_count:
                    self._state.workers[lane.worker_index].recall(lane)

    async def end(self, partitions: Collection[AssignedPartition], wait_seconds: float) -> None:
        """Return when nothing of `partitions` is in flight: after `wait_seconds` workers are killed for it.

        The time is a promise to the group: it is not stretched by late acks, which are waited for after it.
        Raises HeadraceError if a process survives SIGKILL.
        """
        dump_seconds = min(DUMP_SECONDS, wait_seconds)
        if await self._is_quiet(partitions, wait_seconds - dump_seconds):
            return
        # Busy workers are asked what they are in, for the log, within the time that the group was promised.
        for worker in self._workers_with(partitions) if dump_seconds else ():
            worker.dump_stack()
        if await self._is_quiet(partitions, dump_seconds):
            return
        self._kill_workers_with(partitions)
        if not await self._is_quiet(partitions, REAP_SECONDS):
            raise HeadraceError("a worker survived SIGKILL: a process is stuck in the kernel")

    async def confirmed(self, partitions: Collection[AssignedPartition], wait_seconds: float) -> None:
        """Wait until all messages that `partitions` have produced are written, for at most `wait_seconds`.

        A record stays uncommitted, and is delivered again, if one of its messages isn't written by then.
        """
        await self._wait_unless_hurried(
            lambda: not any(p.pending.are_on_their_way for p in partitions), wait_seconds
        )

    async def late_acks(self, partitions: Collection[AssignedPartition], wait_seconds: float) -> None:
        """Wait until all handled records of `partitions` are acked, for at most `wait_seconds`."""
        await self._wait_unless_hurried(lambda: not any(p.awaiting_ack for p in partitions), wait_seconds)

    @contextmanager
    def hurry(self, wait_seconds: float, late_ack_seconds: float) -> Iterator[None]:
        """Give all revokes under way, within this context, no more than so much time from now."""
        loop = asyncio.get_running_loop()
        # Revokes that wait for handlers have their own timeouts, which may be longer than this.
        kill = loop.call_later(wait_seconds, self._kill_revoked)
        deadline = loop.time() + wait_seconds + late_ack_seconds
        wake = loop.call_at(deadline, self._state.changed.set)
        self._deadlines.append(deadline)
        try:
            yield
        finally:
            self._deadlines.remove(deadline)
            kill.cancel()
            wake.cancel()

    def _kill_revoked(self) -> None:
        partitions = self._state.partitions.values()
        self._kill_workers_with([p for p in partitions if p.lane.state is PartitionState.REVOKED])

    def _kill_workers_with(self, partitions: Collection[AssignedPartition]) -> None:
        """Kill the workers that hold records of `partitions`, and give up dead letters that are under way."""
        for lane in _lanes_of(partitions):
            if (write := self._state.dead_letter_writes.get(lane.id)) is not None:
                write.cancel()
        for worker in self._workers_with(partitions):
            if worker.kill(why=_WHY_KILLED):
                self._state.metrics.workers_killed.inc()

    def _workers_with(self, partitions: Collection[AssignedPartition]) -> list[WorkerHandle]:
        held = {lane.worker_index for lane in _lanes_of(partitions) if lane.in_flight_count}
        return [worker for worker in self._state.workers if worker.index in held]

    async def _is_quiet(self, partitions: Iterable[AssignedPartition], wait_seconds: float) -> bool:
        """Wait, for at most `wait_seconds`, until nothing of `partitions` is in flight; return whether so."""
        writes = self._state.dead_letter_writes

        def is_busy(partition: AssignedPartition) -> bool:
            lane = partition.lane
            return lane.out_count > 0 or (bool(writes) and any(it.id in writes for it in lane.parts))

        return await self._wait_until(lambda: not any(map(is_busy, partitions)), wait_seconds)

    async def _wait_unless_hurried(self, is_so: Callable[[], bool], wait_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        await self._wait_until(
            lambda: is_so() or loop.time() >= min(self._deadlines, default=math.inf), wait_seconds
        )

    async def _wait_until(self, is_so: Callable[[], bool], wait_seconds: float) -> bool:
        """Look again at each change of the shared state; return whether it is so when the time is over."""
        try:
            async with asyncio.timeout(wait_seconds):
                while not is_so():
                    # Whoever else waits for the event looks again as well, so clearing it loses nothing.
                    self._state.changed.clear()
                    await self._state.changed.wait()
        except TimeoutError:
            return is_so()
        return True


async def reload_workers(state: DispatcherState) -> None:
    """Return once each worker has another process, started between two of its records."""
    await asyncio.gather(*(_reload(worker, state.changed) for worker in state.workers))


async def _reload(worker: WorkerHandle, changed: asyncio.Event) -> None:
    pid = worker.pid
    worker.retire()
    while worker.in_flight.runs and worker.pid == pid:
        changed.clear()
        await changed.wait()
    if worker.pid == pid:  # otherwise it has died, and its next process has the new code
        worker.restart(_WHY_RELOADED)


def log_unacked(partitions: Collection[AssignedPartition]) -> None:
    """Log the handled records that leave with `partitions` without an ack: nobody waits for those now."""
    left = [partition for partition in partitions if partition.awaiting_ack]
    if left:
        places = ", ".join(f"{p}: {len(p.awaiting_ack)} from offset {p.ledger.committable}" for p in left[:5])
        logger.info(
            "%d handled records stay open, as nobody has acked them, and are delivered again (%s%s)",
            sum(len(partition.awaiting_ack) for partition in left),
            places,
            ", ..." if len(left) > 5 else "",
        )


def _lanes_of(partitions: Iterable[AssignedPartition]) -> Iterator[PartitionLane]:
    return (lane for partition in partitions for lane in partition.lane.parts)

"""Records that take so long that the runs behind them should move to a worker that idles."""

import asyncio
from collections.abc import Sequence

from headrace.runtime.dispatch.choice.allocators import Allocator
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.in_flight import RunningRecord

# Well above what a worker is given at a time, well below what anybody would wait for.
_PATIENCE_SECONDS = 0.01


class Stragglers:
    """Recalls what waits behind a long record, while another worker has nothing to do.

    No event tells that a record takes long: a timer runs while somebody idles and somebody has a queue.
    """

    def __init__(self, workers: Sequence[WorkerHandle], allocator: Allocator) -> None:
        self._workers = workers
        self._allocator = allocator
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Something has been handed out, or handled."""
        if self._timer is None and self._somebody_idles() and any(map(self._movable, self._workers)):
            self._timer = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self._look)

    def stop(self) -> None:
        """No more recalls."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if self._somebody_idles():
            for worker in self._workers:
                if not worker.in_flight.is_straggling and _is_held_up(worker, running := worker.running()):
                    if not worker.in_flight.overlaps or worker.is_loop_held_up:
                        worker.in_flight.slow = frozenset(it.seq for it in running)
                    for lane in self._movable(worker, [it.lane for it in running]):
                        worker.recall(lane)
        self.watch()

    def _somebody_idles(self) -> bool:
        return any(worker.is_ready and worker.in_flight.has_free_seat for worker in self._workers)

    def _movable(self, worker: WorkerHandle, running: Sequence[Lane] = ()) -> list[Lane]:
        """Those that wait behind what the worker is in, and that any worker may have."""
        if len(worker.in_flight) <= worker.in_flight.seats:
            return []
        runs, batch = worker.in_flight.runs, worker.in_flight.batch
        ids = {lane.id for lane in running or [runs[0].lane]}
        waiting = {
            run.lane.id: run.lane
            for run in runs
            if run.lane.id not in ids and run.first_seq not in batch and not run.lane.is_recalled
        }
        return [lane for lane in waiting.values() if self._allocator.worker_of(lane.key) is None]


def _is_held_up(worker: WorkerHandle, running: Sequence[RunningRecord]) -> bool:
    """Another lane would have to wait there, and all that it runs takes long."""
    is_full = bool(running) and not worker.in_flight.has_free_seat  # what waits for its loop doesn't run
    return is_full and all(it.seconds > _PATIENCE_SECONDS for it in running)

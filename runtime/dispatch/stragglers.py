"""Records that take so long that the runs behind them should move to a worker that idles."""

import asyncio
import time
from collections.abc import Sequence

from headrace.runtime.dispatch.allocators import Allocator
from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.workers.handle import WorkerHandle

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
                if not worker.is_straggling and _has_run_for_long(worker):
                    worker.is_straggling = True
                    for partition in self._movable(worker):
                        worker.recall(partition)
        self.watch()

    def _somebody_idles(self) -> bool:
        return any(worker.is_ready and not worker.in_flight.runs for worker in self._workers)

    def _movable(self, worker: WorkerHandle) -> set[AssignedPartition]:
        """Partitions that wait behind the one that the worker is in, and that any worker may have."""
        runs = worker.in_flight.runs
        waiting = {run.partition for run in runs} - {runs[0].partition} if runs else set()
        return {partition for partition in waiting if self._allocator.worker_of(partition) is None}


def _has_run_for_long(worker: WorkerHandle) -> bool:
    progress = worker.sync_progress()
    if progress is None or not progress.is_running:
        return False
    return time.monotonic_ns() - progress.since_ns > _PATIENCE_SECONDS * 1e9

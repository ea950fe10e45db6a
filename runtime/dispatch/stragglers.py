"""Records that take so long that the runs behind them should move to another worker."""

import asyncio
from collections.abc import Sequence

from headrace.runtime.dispatch.choice.allocators import Allocator
from headrace.runtime.dispatch.choice.run_sizer import RunSizer
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.in_flight import RunningRecord

# Well above what a worker is given at a time, well below what anybody would wait for.
_PATIENCE_SECONDS = 0.01
# Where all are busy. A busy machine may keep any process waiting for as long.
_BUSY_PATIENCE_SECONDS = 0.05


class Stragglers:
    """Recalls what waits behind a long record: another worker gets to it sooner.

    No event tells that a record takes long: a timer runs while somebody has a queue.
    """

    def __init__(self, workers: Sequence[WorkerHandle], allocator: Allocator, sizer: RunSizer) -> None:
        self._workers = workers
        self._allocator = allocator
        self._sizer = sizer
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Something has been handed out, or handled."""
        if self._timer is None and any(map(self._could_move, self._workers)):
            self._timer = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self._look)

    def stop(self) -> None:
        """No more recalls."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        for worker in filter(self._could_move, self._workers):
            running = worker.running()
            if self._is_held_up(worker, running):
                if not worker.in_flight.overlaps or worker.is_loop_held_up:
                    worker.in_flight.slow = frozenset(it.seq for it in running)
                for lane in self._movable(worker, [it.lane for it in running]):
                    worker.recall(lane)
        self.watch()

    def _could_move(self, worker: WorkerHandle) -> bool:
        """Something waits there that another worker would get."""
        if worker.in_flight.is_straggling or not self._movable(worker):
            return False
        return any(it.takes_more for it in self._workers if it is not worker)

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

    def _is_held_up(self, worker: WorkerHandle, running: Sequence[RunningRecord]) -> bool:
        """Another lane would have to wait there, and all that it runs takes long."""
        is_full = bool(running) and not worker.in_flight.has_free_seat  # what waits for its loop doesn't run
        patience_seconds = self._patience_seconds(worker)
        return is_full and all(it.seconds > patience_seconds for it in running)

    def _patience_seconds(self, worker: WorkerHandle) -> float:
        """Where all are busy, nobody else would get to what waits before twice the usual time is over."""
        if any(it.is_ready and it.in_flight.has_free_seat for it in self._workers):
            return _PATIENCE_SECONDS
        usual_seconds = self._sizer.ns_per_record * max(1, len(worker.in_flight.batch)) / 1e9
        return _BUSY_PATIENCE_SECONDS + 2 * usual_seconds

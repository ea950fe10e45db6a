"""Records that take so long that the runs behind them should move to another worker."""

import asyncio
from collections.abc import Sequence

from headrace.runtime.dispatch.allocators import Allocator
from headrace.runtime.dispatch.run_sizer import RunSizer
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
        if self._timer is None and any(map(self._has_queue, self._workers)):
            self._timer = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self._look)

    def stop(self) -> None:
        """No more recalls."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        for worker in filter(self._has_queue, self._workers):
            is_loop_free = worker.in_flight.overlaps and not worker.is_loop_held_up
            if is_loop_free and not self._somebody_idles():
                continue  # all of them wait for something: others would wait elsewhere as well
            running = worker.running()
            if self._is_held_up(worker, running) and (lanes := _behind(worker, running)):
                if not is_loop_free:
                    worker.in_flight.slow = frozenset(it.seq for it in running)
                for lane in lanes:
                    worker.recall(lane)
        self.watch()

    def _has_queue(self, worker: WorkerHandle) -> bool:
        """More than it can run, of which another worker could get some."""
        in_flight = worker.in_flight
        if len(in_flight) <= in_flight.seats or in_flight.is_straggling:
            return False
        return self._allocator.is_shared and any(it.takes_more for it in self._workers if it is not worker)

    def _somebody_idles(self) -> bool:
        return any(worker.is_ready and worker.in_flight.has_free_seat for worker in self._workers)

    def _is_held_up(self, worker: WorkerHandle, running: Sequence[RunningRecord]) -> bool:
        """Another lane would have to wait there, and all that it runs takes long."""
        is_full = bool(running) and not worker.in_flight.has_free_seat  # what waits for its loop doesn't run
        patience_seconds = self._patience_seconds(worker)
        return is_full and all(it.seconds > patience_seconds for it in running)

    def _patience_seconds(self, worker: WorkerHandle) -> float:
        """Where all are busy, nobody else would get to what waits before twice the usual time is over."""
        if self._somebody_idles():
            return _PATIENCE_SECONDS
        usual_seconds = self._sizer.ns_per_record * max(1, len(worker.in_flight.batch)) / 1e9
        return _BUSY_PATIENCE_SECONDS + 2 * usual_seconds


def _behind(worker: WorkerHandle, running: Sequence[RunningRecord]) -> list[Lane]:
    """The lanes that wait behind what the worker is in."""
    ids, batch = {it.lane.id for it in running}, worker.in_flight.batch
    waiting = {
        run.lane.id: run.lane
        for run in worker.in_flight.runs
        if run.lane.id not in ids and run.first_seq not in batch and not run.lane.is_recalled
    }
    return list(waiting.values())

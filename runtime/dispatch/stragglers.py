"""Records that take so long that the runs behind them should move to another worker."""

import asyncio
from collections.abc import Sequence

from headrace.runtime.dispatch.allocators import Allocator
from headrace.runtime.dispatch.run_sizer import RunSizer
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.in_flight import RunningRecord

# Well above what a worker is given at a time, well below what anybody would wait for.
_LONG_SECONDS = 0.01
# If all workers are busy. A busy machine may keep any process waiting for as long.
_LONG_WHERE_BUSY_SECONDS = 0.05


class Stragglers:
    """Recalls the lanes that wait in a worker behind a long record: another worker gets to them sooner.

    What follows in the long record's own lane stays, as order asks for. No event tells that a record takes
    long, so a timer runs while a worker has a queue.
    """

    def __init__(self, workers: Sequence[WorkerHandle], allocator: Allocator, sizer: RunSizer) -> None:
        self._workers = workers
        self._allocator = allocator
        self._sizer = sizer
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Start the timer if a worker has a queue. Called when something was handed out or handled."""
        if self._timer is None and any(map(self._has_queue, self._workers)):
            self._timer = asyncio.get_running_loop().call_later(_LONG_SECONDS, self._look)

    def stop(self) -> None:
        """Recall nothing more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        for worker in filter(self._has_queue, self._workers):
            is_loop_free = worker.in_flight.overlaps and not worker.is_loop_held_up
            # Handlers that only wait for something hold up no others: without a free worker, what is behind
            # them would wait elsewhere as well.
            if is_loop_free and not self._somebody_idles():
                continue
            running = worker.running()
            if self._is_held_up(worker, running) and (lanes := _behind(worker, running)):
                if not is_loop_free:
                    worker.in_flight.slow = frozenset(it.seq for it in running)
                for lane in lanes:
                    worker.recall(lane)
        # A record that isn't long yet may be so at the next look.
        self.watch()

    def _has_queue(self, worker: WorkerHandle) -> bool:
        """Whether the worker holds more than it can run, of which another worker could get some."""
        in_flight = worker.in_flight
        if len(in_flight) <= in_flight.seats or in_flight.is_straggling:
            return False
        return self._allocator.is_shared and any(it.takes_more for it in self._workers if it is not worker)

    def _somebody_idles(self) -> bool:
        return any(worker.is_ready and worker.in_flight.has_free_seat for worker in self._workers)

    def _is_held_up(self, worker: WorkerHandle, running: Sequence[RunningRecord]) -> bool:
        """Whether all records that the worker runs take long, and it can run no others beside them."""
        is_full = bool(running) and not worker.in_flight.has_free_seat  # what waits for its loop doesn't run
        long_seconds = self._long_seconds(worker)
        return is_full and all(it.seconds > long_seconds for it in running)

    def _long_seconds(self, worker: WorkerHandle) -> float:
        """Return how long a record takes that holds up others.

        If all workers are busy, none would get to the waiting records before twice the usual time is over.
        """
        if self._somebody_idles():
            return _LONG_SECONDS
        usual_seconds = self._sizer.ns_per_record * max(1, len(worker.in_flight.batch)) / 1e9
        return _LONG_WHERE_BUSY_SECONDS + 2 * usual_seconds


def _behind(worker: WorkerHandle, running: Sequence[RunningRecord]) -> list[Lane]:
    """Return the lanes that wait in the worker behind the records that it runs."""
    ids, batch = {it.lane.id for it in running}, worker.in_flight.batch
    waiting = {
        run.lane.id: run.lane
        for run in worker.in_flight.runs
        if run.lane.id not in ids and run.first_seq not in batch and not run.lane.is_recalled
    }
    return list(waiting.values())

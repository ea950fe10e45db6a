"""Workers that are about to end a record of some length: the next one is there by then."""

import asyncio
from collections.abc import Callable

from headrace.runtime.dispatch.run_sizer import RunSizer
from headrace.runtime.workers.handle import WorkerHandle

# A hop takes half of that, or all of it on a busy machine.
_LEAD_SECONDS = 0.002


class Prefetcher:
    """What a worker is in says nothing of its end but by how long others took: only steady times count.

    No event tells that a record has run for some time: a timer does, one for each worker.
    """

    def __init__(self, sizer: RunSizer, dispatch: Callable[[], None]) -> None:
        self._sizer = sizer
        self._dispatch = dispatch
        self._timers: dict[int, asyncio.TimerHandle] = {}  # by worker

    def is_soon_free(self, worker: WorkerHandle) -> bool:
        """Whether its only record is about to end. If it isn't yet, `dispatch` is called when it is."""
        if worker.in_flight.overlaps or len(worker.in_flight) != 1 or not self._sizer.is_predictable:
            return False
        usual_seconds = self._sizer.ns_per_record / 1e9
        # A process says itself since when it runs: no clock of its own may hold up the timer.
        left_seconds = min([usual_seconds, *(usual_seconds - it.seconds for it in worker.running())])
        if left_seconds > _LEAD_SECONDS and worker.index not in self._timers:
            self._timers[worker.index] = asyncio.get_running_loop().call_later(
                left_seconds - _LEAD_SECONDS, self._look, worker.index
            )
        return abs(left_seconds) <= _LEAD_SECONDS

    def stop(self) -> None:
        """No more calls."""
        for timer in self._timers.values():
            timer.cancel()

    def _look(self, index: int) -> None:
        del self._timers[index]
        self._dispatch()

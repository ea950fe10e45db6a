"""The watchdog of a trigger's workers: `eventTimeout` and `resources.limits.memory`."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.settings.durations import format_duration
from headrace.runtime.tasks import end_tasks, start_task
from headrace.runtime.workers.crash_attribution import KillReason
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.in_flight import RunningRecord

_MEMORY_INTERVAL_SECONDS = 0.1
# Time that a cancelled handler has to end before its worker is killed.
_CANCEL_SECONDS = 1.0
_CANCEL_REASON = "it ran past eventTimeout"
# Time that a worker has to begin its records: no machine has a process wait for so long for its turn.
BEGIN_SECONDS = 10.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Watchdog:
    """Watches the workers of one trigger from the processor, whatever their handlers are doing."""

    def __init__(
        self,
        workers: Sequence[WorkerHandle],
        policy: DeliveryPolicy,
        on_timeout: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_timeout` is called once for each record that runs past eventTimeout."""
        self._workers = workers
        self._policy = policy
        self._on_timeout = on_timeout
        # Pid and seq of records that were late.
        self._late: set[tuple[int | None, int]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        # By worker: its pid, the seq that it has to begin next, and since when it has had to.
        self._to_begin: dict[int, tuple[tuple[int | None, int] | None, float]] = {}

    def start(self) -> None:
        """Start to watch time and memory, as far as they have limits."""
        if self._policy.event_timeout_seconds is not None:
            self._tasks.append(
                start_task(self._watch_time(self._policy.event_timeout_seconds), "eventTimeout")
            )
        if self._policy.memory_limit_bytes is not None:
            self._tasks.append(start_task(self._watch_memory(), "the memory limit"))

    async def stop(self) -> None:
        """Stop watching. Idempotent."""
        await end_tasks(self._tasks)

    async def _watch_time(self, limit_seconds: float) -> None:
        """Look at all workers, then sleep until the first of them may be late.

        A call that starts after a look isn't late before `limit_seconds` from then: so long may be slept.
        """
        reason = f"its handler ran past eventTimeout ({format_duration(limit_seconds)})"
        while True:
            # One sleep for all workers: the first that may be late ends it.
            left = min(self._time_left(worker, limit_seconds, reason) for worker in self._workers)
            await asyncio.sleep(left)

    def _time_left(self, worker: WorkerHandle, limit_seconds: float, reason: str) -> float:
        """Return the seconds until this worker has to be looked at again. Acts if its time is up."""
        running = worker.running()
        if not running:
            return min(limit_seconds, self._time_left_to_begin(worker, limit_seconds))
        self._to_begin.pop(worker.index, None)
        return min(self._time_left_of(it, worker, limit_seconds, reason) for it in running)

    def _time_left_of(
        self, running: RunningRecord, worker: WorkerHandle, limit_seconds: float, reason: str
    ) -> float:
        """Return the seconds until this record has to be looked at again. Acts if its time is up."""
        # No more than the limit, whatever the process says since when it runs.
        left = min(limit_seconds, limit_seconds - running.seconds)
        if left > 0:
            return left
        # An HTTP client has its answer now, whatever the handler still does.
        running.lane.on_cut_short("late")
        # Counted once, also while a cancelled handler takes its time to end.
        if (call := (worker.pid, running.seq)) not in self._late:
            self._late = {it for it in self._late if it[0] != worker.pid or worker.can_cancel} | {call}
            self._on_timeout()
        # An async handler is cancelled, so that others in its process go on. A sync one can only be killed.
        if worker.can_cancel and (waited := worker.sender.cancel(running, _CANCEL_REASON)) < _CANCEL_SECONDS:
            return min(_CANCEL_SECONDS - waited, limit_seconds)
        # A record that runs beside it may be what holds it up.
        worker.kill(KillReason(running.seq, reason, is_certain=worker.in_flight.seats == 1), cause="timeout")
        return limit_seconds

    def _time_left_to_begin(self, worker: WorkerHandle, limit_seconds: float) -> float:
        """Return the seconds until a worker that runs nothing has to be looked at again.

        A worker that never begins its records would never run past the limit: it is replaced.
        """
        limit_seconds = max(limit_seconds, BEGIN_SECONDS)
        runs, now = worker.in_flight.runs, time.monotonic()
        waits_for = (worker.pid, runs[0].first_seq) if runs else None
        before, since = self._to_begin.get(worker.index, (None, now))
        # It has begun something since the last look, or has nothing to begin: its time starts anew.
        if waits_for is None or waits_for != before:
            self._to_begin[worker.index] = waits_for, now
        elif now - since >= limit_seconds:
            worker.replace(f"it was given records, and has begun none within {limit_seconds:g} s", "silent")
        else:
            return limit_seconds - (now - since)
        return limit_seconds

    async def _watch_memory(self) -> None:
        while True:
            for worker in self._workers:
                self.look_at_memory(worker)
            await asyncio.sleep(_MEMORY_INTERVAL_SECONDS)

    def look_at_memory(self, worker: WorkerHandle) -> None:
        """Kill a worker that uses too much memory. The records that it runs are blamed, if any."""
        limit_bytes = self._policy.memory_limit_bytes
        used_bytes = resident_bytes(worker.pid) if limit_bytes is not None and worker.pid is not None else 0
        if limit_bytes is None or used_bytes <= limit_bytes:
            return
        used = (
            f"used {used_bytes >> 20} MiB, more than resources.limits.memory ({limit_bytes >> 20} MiB) allows"
        )
        if running := worker.running():
            worker.kill(KillReason(running[0].seq, f"its worker {used}", is_certain=False), cause="memory")
        else:
            worker.replace(
                f"it {used}, while {'idle' if worker.is_ready else 'loading the handler'}", "memory"
            )


def resident_bytes(pid: int) -> int:
    """Return the memory of one process that is in RAM; 0 if it is gone."""
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
    return 0

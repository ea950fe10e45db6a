"""A worker of a trigger, across the processes that it takes: started, replaced, stopped."""

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Literal, TypeAlias

from headrace.runtime.errors import HandlerLoadError
from headrace.runtime.metrics.runtime_metrics import RestartReason
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.processes import describe_exit
from headrace.runtime.tasks import end_tasks
from headrace.runtime.wire.framing import FrameKind, frame
from headrace.runtime.workers.crash_attribution import KillReason, ProcessExit
from headrace.runtime.workers.in_flight import InFlight, RunningRecord
from headrace.runtime.workers.listener import WorkerListener
from headrace.runtime.workers.process import WorkerProcess
from headrace.runtime.workers.receiver import FrameReceiver
from headrace.runtime.workers.sender import FrameSender

logger = logging.getLogger(__name__)

# SIGKILL is certain; a process in an uninterruptible system call may take its time.
REAP_SECONDS = 5.0
# A process that ends before it has handled anything is followed by the next ever more slowly.
_FIRST_RESPAWN_SECONDS = 0.1
_MAX_RESPAWN_SECONDS = 5.0
_NOBODY_WAITS = "nobody waits for it any more"
_SWEPT = "its lease is over, and others may have been given its partitions"
_CRASHED_IN_DUMP = "it crashed after it was asked what it is in, as its partitions leave"
# A process that writes its stack reads it while it may be changing: rarely, that crashes it.
_CRASHES = {-signal.SIGSEGV, -signal.SIGBUS}

Spawn = Callable[[int], WorkerProcess]
"""Starts a process for the worker of that index. Raises OSError."""
WithdrawResult: TypeAlias = Literal["not here", "recalled", "cancelled", "runs on"]


class WorkerState(Enum):
    """State of a worker. The value is what a status page says."""

    STARTING = "starting"
    READY = "ready"
    STOPPED = "stopped"


class WorkerHandle:
    """A worker of a trigger. Owns its process; a death is settled before anything else is sent.

    Each process has its own InFlight (the records that it holds), FrameSender (what it was told) and
    FrameReceiver (what it has said), which end with it.
    """

    def __init__(self, index: int, spawn: Spawn, listener: WorkerListener, max_concurrency: int = 1) -> None:
        self.index = index
        self.state = WorkerState.STARTING
        self.restarts = 0
        self.can_cancel = False
        """Whether a record can be cancelled: its handler is async."""
        self._max_concurrency = max_concurrency
        self._spawn = spawn
        self._listener = listener
        self._process: WorkerProcess | None = None
        self.in_flight = InFlight()
        self.sender = FrameSender(index, self.in_flight, {})
        """Sends runs to the process that it has now; before the first one, nowhere."""
        self._receiver = FrameReceiver(index, self.in_flight, {}, listener, self._on_ready)
        # Of the process that it has now:
        self._is_kill_ours = False
        self._kill_reason: KillReason | None = None
        self._why_killed = ""
        self._why_replaced = ""
        self._is_retiring = False
        self._may_start = asyncio.Event()
        self._cause: RestartReason = "died"
        self.why_restarted: RestartReason = "died"
        """Cause of the loss of the last process that it has lost."""
        self._loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Number of the process that it has now, if any."""
        return self._process.pid if self._process else None

    @property
    def spark_session_id(self) -> str:
        """Spark session of the process that it has now; empty if the function has no Spark."""
        return self._process.spark_session_id if self._process else ""

    @property
    def is_ready(self) -> bool:
        """Whether it takes runs."""
        return self.state is WorkerState.READY

    @property
    def takes_more(self) -> bool:
        """Whether anything may be handed to it now."""
        return self.is_ready and not self._is_retiring and not self.in_flight.is_straggling

    # ---- its processes

    async def start(self) -> None:
        """Return when the handler is loaded. Raises HandlerLoadError."""
        self._keeper = asyncio.create_task(self._keep_running(), name=f"worker-{self.index}")
        # Shielded: who gives up waiting must not end the worker.
        await asyncio.shield(self._loaded)

    async def stop(self, wait_seconds: float) -> None:
        """Let it finish its records, for at most `wait_seconds`, then kill it. Idempotent."""
        is_loading = self.state is WorkerState.STARTING
        self.state = WorkerState.STOPPED
        process = self._process
        if process is not None and not process.exited.done():
            process.send(frame(FrameKind.STOP))
            # A handler that is still being imported would not hear STOP before that is done.
            await asyncio.wait([process.exited], timeout=0 if is_loading else wait_seconds)
            self.kill(why="the replica stops, and its handler has not ended in time")
            await asyncio.wait([process.exited], timeout=REAP_SECONDS)
        if self._keeper is not None:
            await end_tasks([self._keeper])
            self._keeper = None

    def kill(
        self, kill_reason: KillReason | None = None, why: str = "", cause: RestartReason = "rebalance"
    ) -> bool:
        """Kill the process. Records that it runs have not failed, except as `kill_reason` says.

        The first call decides, and returns True: a process may take its time to die. `why` is logged with the
        records that it ran.
        """
        if self._process is None or not self._process.is_alive or self._is_kill_ours:
            return False
        self._is_kill_ours = True
        self._kill_reason, self._cause = kill_reason, cause
        self._why_killed = why or (kill_reason.reason if kill_reason is not None else "")
        if cause == "timeout" and self.in_flight.runs:
            # The author of the handler wants to know at which line it hangs.
            self._process.dump_stack_and_kill()
        else:
            self._process.kill()
        return True

    def dump_stack(self) -> None:
        """Have the process write its stack: it is about to be killed."""
        if self._process is not None:
            self._process.dump_stack()

    def replace(self, why: str, cause: RestartReason) -> None:
        """Kill the process, which runs no record. If it hasn't handled any either, the next process waits."""
        if self._process is not None and self._process.is_alive and not self._is_kill_ours:
            self._why_replaced = why
            if self._receiver.has_handled:
                logger.warning("worker %d is replaced: %s", self.index, why)
            self.kill(why=why, cause=cause)

    def retire(self) -> None:
        """Give it no more records, and recall those that haven't started: it is to be restarted."""
        self._is_retiring = True
        # Each lane once, however many runs of it are there.
        for lane in {run.lane.id: run.lane for run in self.in_flight.runs}.values():
            self.recall(lane)

    def restart(self, why: str) -> None:
        """Have another process, at once. Records that the present one runs have not failed by that."""
        self._may_start.set()
        self.kill(why=why, cause="reload")

    async def _keep_running(self) -> None:
        respawn_seconds = _FIRST_RESPAWN_SECONDS
        while True:
            try:
                failure = await self._live_once()
            except HandlerLoadError as error:
                self._loaded.set_exception(error)
                return
            if self.state is WorkerState.STOPPED:
                self._loaded.cancel()
                return
            # It has handled a record, or was killed for no fault of its own: the next one starts at once.
            if not failure:
                respawn_seconds = _FIRST_RESPAWN_SECONDS
            else:
                logger.error("worker %d: %s; next try in %.1f s", self.index, failure, respawn_seconds)
                self._may_start.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(respawn_seconds):
                        await self._may_start.wait()
                respawn_seconds = min(2 * respawn_seconds, _MAX_RESPAWN_SECONDS)

    async def _live_once(self) -> str:
        """Run one process, from its start to the decision on its records. Return why to wait before the next.

        Empty if it has handled a record, died in one, or was killed for a rebalance, the end of its lease, a
        timeout, its memory or a reload; but not if it was replaced (`replace`), or killed for a violation,
        before it had begun any. Raises HandlerLoadError if the handler was never loaded, and another process
        couldn't load it either.
        """
        try:
            process = self._begin()
        except OSError as error:
            return f"its process can't be started ({error.strerror or error})"
        self._listener.on_started(self.index)
        code = await asyncio.shield(process.exited)
        was_ready = self.is_ready
        if was_ready:
            # First of all: nothing more may be handed to it.
            self.state = WorkerState.STARTING
        receiver = self._receiver
        failure = self._why_replaced or receiver.violation or receiver.init_failure
        has_started = self._settle_exit(process, code)
        is_ours = self._is_kill_ours
        self.why_restarted = "lease" if process.is_swept else "refused" if receiver.violation else self._cause
        self._listener.on_died(self.index)
        if was_ready and not (has_started or is_ours):
            logger.warning("worker %d died while idle (%s); replaced", self.index, describe_exit(code))
        self.restarts += 1
        why = "it died before it had handled a record" if was_ready else "it died while loading the handler"
        why = failure or f"{why} ({describe_exit(code)})"
        # A signal says nothing of the handler: the kernel short of memory or a person may have sent it.
        cannot_load = bool(failure) or not (was_ready or code < 0)
        if cannot_load and not self._loaded.done() and self.state is not WorkerState.STOPPED:
            # Another process could not load the handler either.
            raise HandlerLoadError(why)
        was_well = has_started or receiver.has_handled or (is_ours and not failure)
        return "" if was_well else why

    def _settle_exit(self, process: WorkerProcess, code: int) -> bool:
        """Decide on all records that a dead process held. Return whether it had started one."""
        receiver = self._receiver
        if process.was_dump_requested and code in _CRASHES and not self._is_kill_ours:
            # Its record must not be blamed for a crash that our question has caused.
            self._is_kill_ours, self._why_killed = True, _CRASHED_IN_DUMP
        # The fence kills without a word to this process; it leaves a note of each sweep.
        self._is_kill_ours = self._is_kill_ours or process.is_swept or bool(receiver.violation)
        why = _SWEPT if process.is_swept else receiver.violation or self._why_killed
        process_exit = ProcessExit(self.index, code, self._is_kill_ours, self._kill_reason, why)
        if process.last_stack:
            logger.warning("worker %d is killed, it was in:\n%s", self.index, process.last_stack)
        return receiver.on_exit(process, process_exit.at(process.last_place))

    def _begin(self) -> WorkerProcess:
        lanes: dict[int, Lane] = {}
        in_flight = InFlight()
        process = self._spawn(self.index)
        read_slot = process.slot.read
        receiver = FrameReceiver(self.index, in_flight, lanes, self._listener, self._on_ready, read_slot)
        process.listen(receiver.on_frame, receiver.on_read, receiver.on_protocol_violation)
        self._process, self.in_flight, self._receiver = process, in_flight, receiver
        self.sender = FrameSender(self.index, in_flight, lanes, process.send, process.flush)
        self._is_kill_ours, self._kill_reason, self._why_killed, self._why_replaced = False, None, "", ""
        self._is_retiring = False
        self._cause = "died"
        return process

    def _on_ready(self) -> None:
        self.can_cancel = self._receiver.is_async
        self.in_flight.seats = self._max_concurrency if self.can_cancel else 1
        self._listener.on_loaded(self.index)
        # The listener may just have killed it, for the memory that the import has taken.
        if self._is_kill_ours:
            return
        if self.state is WorkerState.STARTING:
            self.state = WorkerState.READY
        if not self._loaded.done():
            self._loaded.set_result(None)

    # ---- frames to the process that it has now

    def recall(self, lane: Lane) -> None:
        """Ask for the lane's records that haven't started."""
        self.sender.recall(lane)

    def withdraw(self, lane: Lane) -> WithdrawResult:
        """Recall a lane's records that haven't started, and cancel the one that runs, if possible.

        Never kills. For a lane whose result nobody waits for any more. Return what was done: "not here" if
        the worker holds nothing of the lane, "runs on" if the record that runs can't be cancelled.
        """
        if not any(run.lane is lane for run in self.in_flight.runs):
            return "not here"
        self.recall(lane)
        running = [it for it in self.running() if it.lane is lane or self.in_flight.batch_of(it.seq)]
        if not running:
            return "recalled"
        # A batch has records of others too, and a sync handler nothing that could be cancelled.
        if self.in_flight.batch or not self.can_cancel:
            return "runs on"
        self.sender.cancel(running[0], _NOBODY_WAITS)
        return "cancelled"

    def signal(self, kind: FrameKind) -> None:
        """Send DRAIN or TERMINATE: the user's callback is to be called."""
        if self.is_ready:
            self.sender.send_frame(frame(kind))

    # ---- the records that it holds

    def running(self) -> list[RunningRecord]:
        """Return the records that it runs, by its slot alone. Settles nothing."""
        if self._process is None or not self.is_ready:
            return []
        return self.in_flight.running(self._process.slot)

    @property
    def is_loop_held_up(self) -> bool:
        """Whether records of different lanes wait there for their turn on its event loop."""
        return self._process is not None and self._process.slot.calls.has_waiting

    def has_waiting(self, lane: Lane, first: int, end: int) -> bool:
        """Whether a record of offsets `[first, end)` is there and has not started, as far as is known."""
        in_flight = self.in_flight
        if self._process is None or not in_flight.runs:
            return False
        if in_flight.overlaps:
            # Records of one lane never run beside each other: those behind the one that runs haven't started.
            from_seq = max((it.seq + 1 for it in self.running() if it.lane is lane), default=0)
        else:
            from_seq = in_flight.end_of(self._process.slot.read())
        return in_flight.holds(lane, first, end, from_seq)

    def sync_progress(self) -> None:
        """Settle records that the worker has finished or acked, and not reported yet."""
        if self._process is not None and self.is_ready:
            self._receiver.take_in(self._process)

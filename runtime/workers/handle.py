"""Worker number i of a trigger, across the processes that it takes: started, replaced, stopped."""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple, Protocol

from headrace.runtime.errors import HandlerLoadError
from headrace.runtime.metrics.runtime_metrics import RestartReason
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.processes import describe_exit
from headrace.runtime.tasks import end_tasks
from headrace.runtime.wire import records as wire
from headrace.runtime.wire.records import FrameKind, WireRecord
from headrace.runtime.workers.crash_attribution import KillReason, ProcessExit
from headrace.runtime.workers.in_flight import InFlight, RunningRecord
from headrace.runtime.workers.listener import RecordListener
from headrace.runtime.workers.process import WorkerProcess
from headrace.runtime.workers.receiver import FrameReceiver
from headrace.runtime.workers.sender import FrameSender, NoSink, Part

logger = logging.getLogger(__name__)

# SIGKILL is certain; a process in an uninterruptible system call may take its time.
REAP_SECONDS = 5.0
_FIRST_RESPAWN_SECONDS = 0.1
_MAX_RESPAWN_SECONDS = 5.0
_NOBODY_WAITS = "nobody waits for it any more"
_SWEPT = "its lease is over, and others may have been given its partitions"
_ASKED = "it crashed after it was asked what it is in, as its partitions leave"
# Python reads its own stack amid whatever it does to it: rarely, that is the end of it.
_CRASHES = {-signal.SIGSEGV, -signal.SIGBUS}

Spawn = Callable[[int, Callable[[FrameKind, bytes], None]], WorkerProcess]


class WorkerState(Enum):
    """What a worker is doing. The value is what a status page says."""

    STARTING = "starting"
    READY = "ready"
    STOPPED = "stopped"


class _End(NamedTuple):
    """Why a process ended, and what follows."""

    why: str
    was_well: bool
    """It has handled a record, died in one, or was killed for a rebalance: no reason to wait."""
    is_in_vain: bool = False
    """The handler, or its import, has said that it can't be loaded: another process would say the same."""


class Withdrawal(Enum):
    """What becomes of a lane that nobody waits for any more."""

    NOT_HERE = "nothing of it is here"
    RECALLED = "what hasn't started comes back"
    CANCELLED = "what runs is cancelled"
    RUNS_ON = "what runs can't be cancelled"


class WorkerListener(RecordListener, Protocol):
    """What a worker tells its dispatcher, synchronously, on the processor's event loop."""

    def on_started(self, worker: "WorkerHandle") -> None:
        """It has a process, which can be sent frames."""

    def on_died(self, worker: "WorkerHandle") -> None:
        """Its process is gone, and all that it held is decided."""

    def on_loaded(self, worker: "WorkerHandle") -> None:
        """It is about to be ready: the last moment to replace it for what the handler's import has done."""


class WorkerHandle:
    """Owns its process. A death is settled before anything else is sent.

    What a process holds, was told and has said ends with it: each has an InFlight, a FrameSender and a
    FrameReceiver of its own.
    """

    def __init__(self, index: int, spawn: Spawn, listener: WorkerListener, max_concurrency: int = 1) -> None:
        self.index = index
        self.state = WorkerState.STARTING
        self.restarts = 0
        self.can_cancel = False
        """Its handler is async: a record can be cancelled."""
        self._max_concurrency = max_concurrency
        self._spawn = spawn
        self._listener = listener
        self._process: WorkerProcess | None = None
        self.in_flight = InFlight()
        self.outbox = FrameSender(index, NoSink(), self.in_flight, {})
        self._news = FrameReceiver(index, self.in_flight, {}, listener, self._on_ready)
        self._is_kill_ours = False
        self._verdict: KillReason | None = None
        self._why_killed = ""
        self._why_replaced = ""
        self._is_retiring = False
        self._may_start = asyncio.Event()
        self._cause: RestartReason = "died"
        self.why_restarted: RestartReason = "died"
        """Of the last process that it has lost."""
        self._loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that it has now."""
        return self._process.pid if self._process else None

    @property
    def spark_session_id(self) -> str:
        """Of the process that it has now; empty where the function has no Spark."""
        return self._process.spark_session_id if self._process else ""

    @property
    def is_ready(self) -> bool:
        """Whether it takes runs."""
        return self.state is WorkerState.READY

    @property
    def takes_more(self) -> bool:
        """Whether anything may be handed to it now."""
        return self.is_ready and not self._is_retiring and not self.in_flight.is_straggling

    # ---- its life

    async def start(self) -> None:
        """Returns when the handler is loaded. Raises HandlerLoadError."""
        self._keeper = asyncio.create_task(self._keep_running(), name=f"worker-{self.index}")
        await asyncio.shield(self._loaded)

    async def stop(self, wait_seconds: float) -> None:
        """Let it finish what it holds, at most `wait_seconds`, then kill it. Idempotent."""
        is_loading = self.state is WorkerState.STARTING
        self.state = WorkerState.STOPPED
        process = self._process
        if process is not None and not process.exited.done():
            process.send(wire.frame(FrameKind.STOP))
            await asyncio.wait([process.exited], timeout=0 if is_loading else wait_seconds)
            self.kill(why="the replica stops, and its handler has not ended in time")
            await asyncio.wait([process.exited], timeout=REAP_SECONDS)
        if self._keeper is not None:
            await end_tasks([self._keeper])
            self._keeper = None

    def kill(
        self, verdict: KillReason | None = None, why: str = "", cause: RestartReason = "rebalance"
    ) -> bool:
        """By the runtime's own will: what it runs counts as no failure, but for what the verdict names.

        The first call decides, and returns True: a process may take its time to die. `why` is said of what
        it runs.
        """
        if self._process is None or not self._process.is_alive or self._is_kill_ours:
            return False
        self._is_kill_ours = True
        self._verdict, self._cause = verdict, cause
        self._why_killed = why or (verdict.reason if verdict is not None else "")
        if cause == "timeout" and self.in_flight.runs:
            self._process.kill_asking()
        else:
            self._process.kill()
        return True

    def ask(self) -> None:
        """Have the process say what it is in: it is about to be killed."""
        if self._process is not None:
            self._process.ask()

    def replace(self, why: str, cause: RestartReason) -> None:
        """Kill the process, which runs nothing. If it hasn't handled anything either, the next one waits."""
        if self._process is not None and self._process.is_alive and not self._is_kill_ours:
            self._why_replaced = why
            if self._news.has_handled:
                logger.warning("worker %d is replaced: %s", self.index, why)
            self.kill(why=why, cause=cause)

    def retire(self) -> None:
        """It is to be restarted: it gets nothing more, and what hasn't started comes back."""
        self._is_retiring = True
        for lane in {run.lane.id: run.lane for run in self.in_flight.runs}.values():
            self.recall(lane)

    def restart(self, why: str) -> None:
        """Another process, at once. What it runs counts as no failure."""
        self._may_start.set()
        self.kill(why=why, cause="reload")

    async def _keep_running(self) -> None:
        respawn_seconds = _FIRST_RESPAWN_SECONDS
        while True:
            end = await self._live_once()
            if self.state is WorkerState.STOPPED:
                self._loaded.cancel()
                return
            if end.is_in_vain and not self._loaded.done():
                self._loaded.set_exception(HandlerLoadError(end.why))
                return
            if end.was_well:
                respawn_seconds = _FIRST_RESPAWN_SECONDS
            else:
                logger.error("worker %d: %s; next try in %.1f s", self.index, end.why, respawn_seconds)
                self._may_start.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(respawn_seconds):
                        await self._may_start.wait()
                respawn_seconds = min(2 * respawn_seconds, _MAX_RESPAWN_SECONDS)

    async def _live_once(self) -> _End:
        """From the start of a process to the decision on its records."""
        try:
            process = self._begin()
        except OSError as error:
            return _End(f"its process can't be started ({error.strerror or error})", was_well=False)
        self._listener.on_started(self)
        code = await asyncio.shield(process.exited)
        was_ready = self.is_ready
        if was_ready:
            self.state = WorkerState.STARTING  # first: nothing more may be handed to it
        news = self._news
        if process.was_asked and code in _CRASHES and not self._is_kill_ours:
            self._is_kill_ours, self._why_killed = True, _ASKED
        is_ours = self._is_kill_ours = self._is_kill_ours or process.is_swept or bool(news.nonsense)
        failure = self._why_replaced or news.nonsense or news.init_failure
        why = _SWEPT if process.is_swept else news.nonsense or self._why_killed
        death = ProcessExit(self.index, code, is_ours, self._verdict, why)
        if process.was_in:
            logger.warning("worker %d is killed, it was in:\n%s", self.index, process.was_in)
        has_started = news.on_death(process, death.at(process.was_at))
        self.why_restarted = "lease" if process.is_swept else "refused" if news.nonsense else self._cause
        self._listener.on_died(self)
        if was_ready and not (has_started or is_ours):
            logger.warning("worker %d died while idle (%s); replaced", self.index, describe_exit(code))
        self.restarts += 1
        why = "it died before it had handled a record" if was_ready else "it died while loading the handler"
        return _End(
            failure or f"{why} ({describe_exit(code)})",
            was_well=has_started or self._news.has_handled or (is_ours and not failure),
            # A signal says nothing of the handler: the kernel short of memory or a person may have sent it.
            is_in_vain=bool(failure) or not (was_ready or code < 0),
        )

    def _begin(self) -> WorkerProcess:
        lanes: dict[int, Lane] = {}
        in_flight = InFlight()
        news = FrameReceiver(self.index, in_flight, lanes, self._listener, self._on_ready)
        process = self._spawn(self.index, news.on_frame)
        process.on_read = news.on_read
        news.look = process.slot.read
        process.on_nonsense = news.on_nonsense
        self._process, self.in_flight, self._news = process, in_flight, news
        self.outbox = FrameSender(self.index, process, in_flight, lanes)
        self._is_kill_ours, self._verdict, self._why_killed, self._why_replaced = False, None, "", ""
        self._is_retiring = False
        self._cause = "died"
        return process

    def _on_ready(self) -> None:
        self.can_cancel = self._news.is_async
        self.in_flight.seats = self._max_concurrency if self.can_cancel else 1
        self._listener.on_loaded(self)
        if self._is_kill_ours:
            return
        if self.state is WorkerState.STARTING:
            self.state = WorkerState.READY
        if not self._loaded.done():
            self._loaded.set_result(None)

    # ---- what goes to the process that it has now

    def send(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Hand out a run."""
        self.outbox.send(lane, records)

    def send_batch(self, parts: Sequence[Part]) -> None:
        """Hand out records of several lanes, for one call of the handler."""
        self.outbox.send_batch(parts)

    def recall(self, lane: Lane) -> None:
        """Ask for what hasn't started of it."""
        self.outbox.recall(lane)

    def withdraw(self, lane: Lane) -> Withdrawal:
        """Who asked for its records is gone: have back what hasn't started, cancel what runs. Never kills."""
        if not any(run.lane is lane for run in self.in_flight.runs):
            return Withdrawal.NOT_HERE
        self.recall(lane)
        running = [it for it in self.running() if it.lane is lane or self.in_flight.batch_of(it.seq)]
        if not running:
            return Withdrawal.RECALLED
        if self.in_flight.batch or not self.can_cancel:  # in a batch are others too
            return Withdrawal.RUNS_ON
        self.outbox.cancel(running[0], _NOBODY_WAITS)
        return Withdrawal.CANCELLED

    def signal(self, kind: FrameKind) -> None:
        """DRAIN or TERMINATE: have the user's callback called."""
        if self.is_ready:
            self.outbox.send_frame(wire.frame(kind))

    # ---- where that is

    def running(self) -> list[RunningRecord]:
        """The records that it is in, by its slot alone. Settles nothing."""
        if self._process is None or not self.is_ready:
            return []
        return self.in_flight.running(self._process.slot)

    @property
    def is_loop_held_up(self) -> bool:
        """Records of different lanes wait there for their turn on its event loop."""
        return self._process is not None and self._process.slot.calls.has_waiting

    def has_waiting(self, lane: Lane, first: int, end: int) -> bool:
        """Whether a record of offsets `[first, end)` is there and has not started, as far as is known."""
        in_flight = self.in_flight
        if self._process is None or not in_flight.runs:
            return False
        if in_flight.overlaps:
            from_seq = max((it.seq + 1 for it in self.running() if it.lane is lane), default=0)
        else:
            from_seq = in_flight.end_of(self._process.slot.read())
        return in_flight.holds(lane, first, end, from_seq)

    def sync_progress(self) -> None:
        """Settle what the worker has finished or acked, and not reported yet."""
        if self._process is not None and self.is_ready:
            self._news.take_in(self._process)

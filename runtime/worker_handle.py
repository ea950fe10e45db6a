"""Worker number i of a trigger, across the processes that it takes: started, replaced, stopped."""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from headrace.runtime import wire
from headrace.runtime.errors import HandlerLoadError
from headrace.runtime.in_flight import InFlight
from headrace.runtime.partition import AssignedPartition
from headrace.runtime.progress_slot import Progress
from headrace.runtime.wire import Kind, WireRecord
from headrace.runtime.worker_process import WorkerProcess, describe_exit

logger = logging.getLogger(__name__)

# SIGKILL is certain; a process in an uninterruptible system call may take its time.
REAP_SECONDS = 5.0
_FIRST_RESPAWN_SECONDS = 0.1
_MAX_RESPAWN_SECONDS = 5.0

Spawn = Callable[[int, Callable[[Kind, bytes], None]], WorkerProcess]


class WorkerState(Enum):
    """What a worker is doing. The value is what a status page says."""

    STARTING = "starting"
    READY = "ready"
    STOPPED = "stopped"


class WorkerListener(Protocol):
    """What a worker tells its dispatcher, synchronously, on the processor's event loop."""

    def ready(self, worker: "WorkerHandle") -> None:
        """It takes runs from now on."""

    def measured(self, count: int, handler_ns: int) -> None:
        """It has run so many records in that time."""

    def settled(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """They succeeded."""

    def failed(self, partition: AssignedPartition, record: WireRecord, reason: str) -> None:
        """The handler failed on it, or its process died by itself while running it."""

    def returned(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """They did not start, or the runtime killed the process in one of them."""

    def changed(self) -> None:
        """One batch of news is over: a good moment to hand out more."""


class WorkerHandle:
    """Owns its process and knows which records are there. A death is settled before anything else is sent."""

    def __init__(self, index: int, spawn: Spawn, listener: WorkerListener) -> None:
        self.index = index
        self.state = WorkerState.STARTING
        self.restarts = 0
        self.in_flight = InFlight()
        self.is_straggling = False
        """In one record for long: gets nothing more until that one is done."""
        self._spawn = spawn
        self._listener = listener
        self._process: WorkerProcess | None = None
        self._announced: set[int] = set()
        self._is_kill_ours = False
        self._init_failure = ""
        self._is_healthy = False
        """Its process has settled a record, or died by our hand: its death is no reason to wait."""
        self._loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that it has now."""
        return self._process.pid if self._process else None

    @property
    def is_ready(self) -> bool:
        """Whether it takes runs."""
        return self.state is WorkerState.READY

    @property
    def _is_stopped(self) -> bool:
        return self.state is WorkerState.STOPPED

    async def start(self) -> None:
        """Returns when the handler is loaded. Raises HandlerLoadError."""
        self._keeper = asyncio.create_task(self._keep_running(), name=f"worker-{self.index}")
        await asyncio.shield(self._loaded)

    async def stop(self, wait_seconds: float) -> None:
        """Let it finish what it holds, at most `wait_seconds`, then kill it. Idempotent."""
        is_loading = self.state is WorkerState.STARTING
        self.state = WorkerState.STOPPED
        process = self._process
        if process is not None and process.is_alive:
            process.send(wire.frame(Kind.STOP))
            await asyncio.wait([process.exited], timeout=0 if is_loading else wait_seconds)
            self.kill()
            await asyncio.wait([process.exited], timeout=REAP_SECONDS)
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None

    def send(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """Hand out a run."""
        assert self._process is not None
        if partition.id not in self._announced:
            self._announced.add(partition.id)
            about = {"partition_id": partition.id, "topic": partition.topic, "partition": partition.partition}
            self._process.send(wire.json_frame(Kind.PARTITION, about))
        partition.worker_index = self.index
        self._process.send(wire.encode_run(self.in_flight.add(partition, records), records))

    def recall(self, partition: AssignedPartition) -> None:
        """Ask for what hasn't started of it."""
        if self._process is not None:
            partition.is_recalled = True
            self._process.send(wire.encode_recall(partition.id))

    def forget(self, partition: AssignedPartition) -> None:
        """It is revoked, and nothing of it is here."""
        if self._process is not None and partition.id in self._announced:
            self._announced.remove(partition.id)
            self._process.send(wire.encode_forget(partition.id))

    def signal(self, kind: Kind) -> None:
        """DRAIN or TERMINATE: have the user's callback called."""
        if self._process is not None and self.is_ready:
            self._process.send(wire.frame(kind))

    def kill(self) -> None:
        """By the runtime's own will: what it runs counts as no failure."""
        if self._process is not None and self._process.is_alive:
            self._is_kill_ours = True
            self._process.kill()

    def sync_progress(self) -> Progress | None:
        """Settle what the worker has finished but not reported; where it is now."""
        if self._process is None or not self.is_ready:
            return None
        progress = self._process.read_progress()
        if progress is not None:
            self._settle_before(progress.seq)
        return progress

    async def _keep_running(self) -> None:
        respawn_seconds = _FIRST_RESPAWN_SECONDS
        while not self._is_stopped:
            failure = await self._live_once()
            if not self._loaded.done():
                self._loaded.set_exception(HandlerLoadError(failure))
                return
            if self._is_healthy:
                respawn_seconds = _FIRST_RESPAWN_SECONDS
            elif not self._is_stopped:
                logger.error("worker %d: %s; next try in %.1f s", self.index, failure, respawn_seconds)
                await asyncio.sleep(respawn_seconds)
                respawn_seconds = min(2 * respawn_seconds, _MAX_RESPAWN_SECONDS)

    async def _live_once(self) -> str:
        """From the start of a process to the decision on its records; why it ended."""
        self._init_failure = ""
        self._is_healthy = False
        try:
            self._process = self._spawn(self.index, self._on_frame)
        except OSError as error:
            return f"its process can't be started ({error.strerror or error})"
        code = await asyncio.shield(self._process.exited)
        was_ready = self.is_ready
        if was_ready:
            self.state = WorkerState.STARTING  # first: nothing more may be handed to it
        self._is_healthy |= self._is_kill_ours
        self._clear_up(self._process, code, was_ready)
        self.restarts += 1
        why = "it died before it had handled a record" if was_ready else "it died while loading the handler"
        return self._init_failure or f"{why} ({describe_exit(code)})"

    def _clear_up(self, process: WorkerProcess, code: int, was_ready: bool) -> None:
        """The process is reaped. Decide on each record that it held, by its last word and the slot."""
        progress = process.read_progress()
        process.slot.close()
        self._announced.clear()
        running = None
        if progress is not None:  # else all that was not reported comes back: better twice than never
            self._settle_before(progress.seq)
            running = self.in_flight.take(progress.seq) if progress.is_running else None
        if running is not None:
            self._report_running(*running, code)
        while self.in_flight.runs:
            run = self.in_flight.runs.popleft()
            self._listener.returned(run.partition, run.records)
        self.in_flight = InFlight()
        self.is_straggling = False
        if was_ready and running is None and not self._is_kill_ours:
            logger.warning("worker %d died while idle (%s); replaced", self.index, describe_exit(code))
        self._is_kill_ours = False
        self._listener.changed()

    def _report_running(self, partition: AssignedPartition, record: WireRecord, code: int) -> None:
        if self._is_kill_ours:
            logger.warning(
                "worker %d was killed in %s offset %d, which stays uncommitted and is delivered again",
                *(self.index, partition, record.offset),
            )
            self._listener.returned(partition, [record])
        else:
            reason = f"worker {self.index} died while running it ({describe_exit(code)})"
            self._listener.failed(partition, record, reason)

    def _on_frame(self, kind: Kind, body: bytes) -> None:
        match kind:
            case Kind.PROGRESS:
                seq, handler_ns, count = wire.decode_progress(body)
                self._settle_before(seq)
                self._listener.measured(count, handler_ns)
            case Kind.FAILED:
                self._on_failed(*wire.decode_about(body))
            case Kind.RETURNED:
                for span in wire.decode_returned(body):
                    self._listener.returned(*self.in_flight.take_back(*span))
            case Kind.LOG:
                self._on_log(*wire.decode_about(body))
            case Kind.READY:
                self._on_ready()
            case Kind.INIT_FAILED:
                self._init_failure = body.decode()
            case _:
                raise AssertionError(f"a worker does not send {kind.name}")
        self._listener.changed()

    def _settle_before(self, seq: int) -> None:
        for partition, records in self.in_flight.settle_before(seq):
            self.is_straggling = False
            self._is_healthy = True
            self._listener.settled(partition, records)

    def _on_failed(self, seq: int, reason: str) -> None:
        self._settle_before(seq)
        failed = self.in_flight.take(seq)
        assert failed is not None, "a worker fails only what it holds"
        self.is_straggling = False
        self._listener.failed(*failed, reason)

    def _on_ready(self) -> None:
        if self.state is WorkerState.STARTING:
            self.state = WorkerState.READY
            self._listener.ready(self)
        if not self._loaded.done():
            self._loaded.set_result(None)

    def _on_log(self, seq: int, text: str) -> None:
        line = json.loads(text)
        bound = {"worker": self.index, **line["with"]}
        if (found := self.in_flight.find(seq)) is not None:
            partition, record = found
            bound |= {"partition": str(partition), "offset": record.offset}
        logging.getLogger("handler").log(line["level"], "%s", line["message"], extra={"bound": bound})

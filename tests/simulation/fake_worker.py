"""A worker process that is none: the worker's own loop in virtual time, behind a wire that takes its time.

Real are the frames, the slot, inbox, acks and the calls of the handler. What the kernel does is played: it
starts, kills and reaps a process, carries bytes, switches threads. `test_fake_worker.py` compares the two.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import count
from typing import Any, NoReturn, Protocol

from headrace.runtime.wire.framing import Buffer, FrameKind, frame, split_frames
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.progress_slot import Progress, ProgressSlot
from headrace.runtime.wire.start import WorkerStart, decode_start, encode_start
from headrace.runtime.worker.api.context import Platform
from headrace.runtime.worker.api.event_loop import WorkerEventLoop
from headrace.runtime.worker.concurrent_calls import ConcurrentCalls
from headrace.runtime.worker.frame_handler import handle_frame
from headrace.runtime.worker.handler import Handler
from headrace.runtime.worker.loop import WorkerLoop
from headrace.runtime.workers.channel import OnFrame
from headrace.runtime.workers.process import EndSession

KILLED = -9
_pids = count(1 << 30)  # no process has such a number, whoever it is sent a signal by


class Machine(Protocol):
    """What a process runs on: how long things take, and what the handler does."""

    is_async: bool
    """What the handler says of itself."""

    def latency(self) -> float:
        """Until bytes arrive, or a signal, or an exit, seconds."""

    def load_seconds(self) -> float:
        """Until the handler is imported."""

    def cut(self, size: int) -> int:
        """How many of `size` bytes arrive first."""

    def dies_before_saying(self, process: "FakeProcess") -> bool:
        """It is about to send, and killed before it has."""

    def call(self, process: "FakeProcess", context: Any, given: Any) -> Coroutine[Any, Any, Any]:
        """The handler."""

    def on_death(self, process: "FakeProcess") -> None:
        """It is gone, and what it ran with it."""


class DeadError(BaseException):
    """Goes up from where a process has died; nobody hears of what is done on its way."""


class _Pipe:
    """One direction of the socket: bytes in order, late, and cut anywhere."""

    def __init__(self, machine: Machine, on_bytes: Callable[[bytes], None]) -> None:
        self._machine = machine
        self._on_bytes = on_bytes
        self._unread = bytearray()
        self._arrives_at = 0.0

    def write(self, data: bytes) -> None:
        self._unread += data
        first = self._machine.cut(len(data))
        for size in filter(None, (first, len(data) - first)):
            loop = asyncio.get_running_loop()
            self._arrives_at = max(self._arrives_at, loop.time() + self._machine.latency())
            loop.call_at(self._arrives_at, self.read, size)

    def read(self, most: int = 1 << 30) -> None:
        """What was read early doesn't arrive again."""
        data = bytes(self._unread[:most])
        del self._unread[:most]
        if data:
            self._on_bytes(data)


class _Loop(WorkerLoop):
    """The main thread, on an event loop that it shares with everybody."""

    @property
    def platform(self) -> Platform:
        return self._context.platform

    async def serve(self, process: "FakeProcess") -> None:
        if isinstance(self._calls, ConcurrentCalls):
            await self._calls.serve()
            return
        while not (process.is_dead or self.inbox.is_finished):
            if (work := self._calls.next_work()) is not None:
                await work
            else:
                process.news.clear()
                await process.news.wait()

    def cut_off(self) -> None:
        """What it still does touches nobody: it is dead."""
        self._slot.abandon()
        self.inbox.abandon()
        for task in self._concurrent._runs.values() if self._concurrent is not None else ():
            task.cancel()

    def current_seq(self) -> int:
        """Of the record whose handler asks; -1 where they are handled one after another."""
        calls = self._concurrent._calls if self._concurrent is not None else {}
        task = asyncio.current_task()
        return next((seq for seq, call in calls.items() if call.task is task), -1)

    def unsaid(self) -> set[int] | None:
        """Of what its processor hasn't heard that it has ended, where several run; None where none do."""
        if self._concurrent is None:
            return None
        return {seq for seq, _ in self._concurrent._ended} | self._concurrent._calls.keys()


class FakeProcess:
    """In the place of a WorkerProcess."""

    last_stack = last_place = ""
    was_dump_requested = False

    def __init__(
        self,
        start: WorkerStart,
        lease: Lease,
        machine: Machine,
        end_session: EndSession | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.pid = next(_pids)
        self.index = start.worker_id
        self.spark_session_id = start.spark_session_id
        self.slot = ProgressSlot.create(lease, start.places)
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self.is_alive, self.is_dead, self.is_loaded = True, False, False
        self.news = asyncio.Event()
        self.worker: _Loop
        self._machine = machine
        self._lease, self._last_sweep = lease, lease.kills.last_sweep
        self._end_session = end_session
        self._on_frame: OnFrame
        self._on_read: Callable[[], None]
        self._unsent, self._heard, self._said = bytearray(), bytearray(), bytearray()
        self._down, self._up = _Pipe(machine, self._hear), _Pipe(machine, self._tell)
        self._tasks: set[asyncio.Task[Any]] = set()
        lease.kills.hold(self.index, self.pid)
        self.send(encode_start(start))

    def __repr__(self) -> str:
        return f"worker {self.index}, process {self.pid}"

    # ---- for its processor: as WorkerProcess says

    def listen(
        self, on_frame: OnFrame, on_read: Callable[[], None], on_violation: Callable[[str], None]
    ) -> None:
        self._on_frame, self._on_read = on_frame, on_read

    @property
    def is_swept(self) -> bool:
        return self._lease.kills.last_sweep != self._last_sweep

    def send(self, *data: Buffer) -> None:
        if not self._unsent:
            self._loop.call_soon(self.flush)
        for piece in data:
            self._unsent += piece

    def flush(self) -> None:
        if self._unsent and not self.is_dead:
            self._down.write(bytes(self._unsent))
        self._unsent.clear()

    def read_progress(self) -> Progress | None:
        progress = self.slot.read()
        self._up.read()
        return progress

    def kill(self) -> None:
        if self.is_alive:
            self._loop.call_later(self._machine.latency(), self.die)

    def dump_stack_and_kill(self) -> None:
        self.kill()

    def dump_stack(self) -> None:
        """It says nothing of itself."""

    def _tell(self, data: bytes) -> None:
        self._said += data
        for kind, body in split_frames(self._said):
            self._on_frame(kind, body)
        self._on_read()

    # ---- inside

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        """Beside what it handles; ends with the process."""
        if self.is_dead:
            work.close()
            return
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, DeadError):
            raise error

    def say(self, data: bytes) -> None:
        """As its end of the socket."""
        if self.is_dead:
            return
        if self._machine.dies_before_saying(self):
            self.end()
        self._up.write(data)

    def end(self, code: int = KILLED) -> NoReturn:
        """From within."""
        self.die(code)
        raise DeadError

    def die(self, code: int = KILLED) -> None:
        """Now; its processor hears of it later."""
        if self.is_dead:
            return
        self._machine.on_death(self)
        self.is_dead = True
        if hasattr(self, "worker"):
            self.worker.cut_off()
        for task in self._tasks:
            task.cancel()
        self._loop.call_later(self._machine.latency(), self._reap, code)

    def _hear(self, data: bytes) -> None:
        self._heard += data
        with suppress(DeadError):  # where it had to answer
            for kind, body in split_frames(self._heard):
                if self.is_dead:
                    return
                if kind is FrameKind.START:
                    self._begin(decode_start(body))
                else:
                    handle_frame(self.worker, kind, body)
        self.news.set()

    def _begin(self, start: WorkerStart) -> None:
        slot = ProgressSlot(self.slot.fd, self._lease, self.end)
        assert isinstance(self._loop, WorkerEventLoop)
        self.worker = _Loop(self.say, slot, start, self._loop)
        self.run(self._live())

    async def _live(self) -> None:
        machine = self._machine
        await asyncio.sleep(machine.load_seconds())
        self.worker.use(Handler(self._call, is_async=True), None)
        self.say(frame(FrameKind.READY, bytes([machine.is_async])))
        self.is_loaded = True
        await self.worker.serve(self)
        self.die(0)

    def _call(self, context: Any, given: Any) -> Coroutine[Any, Any, Any]:
        return self._machine.call(self, context, given)

    def _reap(self, code: int) -> None:
        self._lease.kills.release(self.index)
        self.is_alive = False
        self._up.read()
        if self._end_session is None:
            self.exited.set_result(code)
        else:
            self._reaper = self._loop.create_task(self._end_own_session(self._end_session, code))

    async def _end_own_session(self, end_session: EndSession, code: int) -> None:
        try:
            await end_session(self.spark_session_id)
        finally:
            self.exited.set_result(code)

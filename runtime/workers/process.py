"""A worker process, from its processor's side: started, sent frames, killed, reaped."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable, Mapping
from itertools import count

from headrace.runtime.processes import MARK, handlers_umask, kill_marked
from headrace.runtime.users import OURS, ProcessUser
from headrace.runtime.wire.framing import Buffer, FrameKind, ProtocolViolationError
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.progress_slot import Progress, ProgressSlot
from headrace.runtime.wire.stack_dump import StackDump, place_in
from headrace.runtime.wire.start import WorkerStart, encode_start
from headrace.runtime.workers.channel import Channel, OnFrame

_SEND_BUFFER_BYTES = 1 << 20
DUMP_SECONDS = 0.2
"""Time that a worker has to write its stack before it is killed."""

_serials = count()
EndSession = Callable[[str], Awaitable[object]]


class WorkerProcess:
    """A process of a worker, which runs handlers.

    A mark in its environment is inherited by all processes that it starts, and it leads its own group, unless
    it has a terminal: so a kill also ends those. `exited` is done once the process is reaped, all its frames
    have been passed on, and its jobs on Spark have been ended: then its records may go elsewhere.
    """

    def __init__(
        self,
        start: WorkerStart,
        env: Mapping[str, str],
        lease: Lease,
        end_session: EndSession | None = None,
        user: ProcessUser = OURS,
    ) -> None:
        """Start it as `user`, whose part of the environment is in `env` already. `listen` is to follow.

        Raises OSError if the machine has no room for another process.
        """
        loop = asyncio.get_running_loop()
        self.spark_session_id = start.spark_session_id
        self._end_session = end_session
        self._kills = lease.kills
        self._last_sweep = lease.kills.last_sweep
        self._index = start.worker_id
        self._mark = f"{lease.kills.mark}{next(_serials)}."
        self._is_reaped = False
        self._folder = start.folder
        self._has_spark = bool(start.spark_url)
        self.was_dump_requested = False
        """Whether it was asked for its stack."""
        self.last_stack = ""
        """Stack of its main thread, if it was asked to write it before its end; empty until it is reaped."""
        self._session_end: asyncio.Task[None] | None = None
        self.exited: asyncio.Future[int] = loop.create_future()
        with contextlib.ExitStack() as on_failure:
            self.slot = ProgressSlot.create(lease, start.places)
            on_failure.callback(self.slot.close)
            self._stack_dump = StackDump()
            on_failure.callback(self._stack_dump.take)
            ours, theirs = socket.socketpair()
            on_failure.callback(ours.close)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            with theirs:
                fds = [theirs.fileno(), self.slot.fd, lease.fd, self._stack_dump.fd]
                more = [start.spark_token_fd] if start.spark_token_fd >= 0 else []
                own_env = {**env, MARK: self._mark}
                self._popen = _spawn(fds, more, own_env, user, has_terminal=start.has_terminal)
            on_failure.callback(self._popen.kill)
            # Its death is its exit, not the end of its socket: what a handler has forked may hold that open.
            self._pidfd = os.pidfd_open(self._popen.pid)
            on_failure.pop_all()
        lease.kills.hold(self._index, self.pid)
        loop.add_reader(self._pidfd, self._reap)
        self._on_frame: OnFrame
        self._channel = Channel(ours)
        self.send(encode_start(start))

    def listen(
        self, on_frame: OnFrame, on_read: Callable[[], None], on_violation: Callable[[str], None]
    ) -> None:
        """Pass on its frames, from now on. To be called once, in the turn of the loop in which it was made.

        `on_read` is called after the frames of each read, `on_violation` once, if it says what can't be: then
        it is killed.
        """
        self._on_frame = on_frame
        on_frame = self._take_frame if self._has_spark else on_frame
        self._channel.listen(on_frame, on_read, on_end=self.kill, on_violation=on_violation)

    @property
    def pid(self) -> int:
        """Number of the process, and of its process group."""
        return self._popen.pid

    @property
    def is_alive(self) -> bool:
        """Whether it isn't reaped yet."""
        return not self._is_reaped

    @property
    def is_swept(self) -> bool:
        """Whether the fence has ended all workers since it was started, for their lease was over."""
        return self._kills.last_sweep != self._last_sweep

    def send(self, *data: Buffer) -> None:
        """Send one or more frames, in pieces. Never blocks."""
        self._channel.send(*data)

    def flush(self) -> None:
        """Have what was sent leave now, not at the end of this turn of the loop."""
        self._channel.flush()

    def read_progress(self) -> Progress | None:
        """Return the slot's content, after all frames that the worker sent before it wrote that.

        None if some of these could not be taken in: then the slot says nothing. Not to be called from within
        `on_frame`.
        """
        # The slot first: the socket, read after it, then has all frames that were sent before the slot moved.
        progress = self.slot.read()
        self._channel.read_available()
        return None if self._channel.is_broken else progress

    def refuse(self, why: str) -> None:
        """Kill it for a protocol violation, `why`, and take in nothing more that it says."""
        self._channel.refuse(why)

    def kill(self) -> None:
        """Send SIGKILL to it and its group. Processes that left the group are killed when it is reaped."""
        if self.is_alive:
            # Both: it may have left its own group.
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError):
                    kill(self.pid, signal.SIGKILL)

    def dump_stack_and_kill(self) -> None:
        """Have it write its stack, and kill it after DUMP_SECONDS, whatever it is in."""
        if self.is_alive:
            self.dump_stack()
            asyncio.get_running_loop().call_later(DUMP_SECONDS, self.kill)

    def dump_stack(self) -> None:
        """Have it write its stack."""
        self.was_dump_requested = True
        with contextlib.suppress(ProcessLookupError):
            self._stack_dump.request(self.pid)

    @property
    def last_place(self) -> str:
        """Place in the handler's code, `function, file:line`, of `last_stack`; empty if there is none."""
        return place_in(self.last_stack, self._folder)

    def _take_frame(self, kind: FrameKind, body: bytes) -> None:
        if kind is FrameKind.SPARK_SESSION:
            self.spark_session_id = _session_id(body)
        else:
            self._on_frame(kind, body)

    def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        # Before the process is waited for: until then the group's number is surely still its own.
        self.kill()
        self._kills.release(self._index)
        code = self._popen.wait()
        # Kills what has left its group, before its records go elsewhere: it may still work on them.
        kill_marked(self._mark)
        self._is_reaped = True
        self.last_stack = self._stack_dump.take()
        self._channel.drain_and_close()
        # Before `exited`: its jobs on Spark would go on beside the next delivery of its records.
        if self._end_session is None:
            self.exited.set_result(code)
        else:
            self._session_end = loop.create_task(self._end_own_session(self._end_session, code))

    async def _end_own_session(self, end_session: EndSession, code: int) -> None:
        try:
            await end_session(self.spark_session_id)
        finally:
            self.exited.set_result(code)


def _session_id(body: bytes) -> str:
    try:
        return str(uuid.UUID(body.decode()))
    except ValueError:
        raise ProtocolViolationError("a Spark session whose id is none") from None


def _spawn(
    fds: list[int], more_fds: list[int], env: Mapping[str, str], user: ProcessUser, *, has_terminal: bool
) -> "subprocess.Popen[bytes]":
    # From the main thread: a worker dies with the thread that started it (PR_SET_PDEATHSIG).
    # -P: what lies in the current folder must not shadow the standard library.
    with contextlib.ExitStack() as ours:
        out, err = (_to_write(fd, ours) if user.is_another else None for fd in (1, 2))
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "headrace.runtime.worker", *map(str, fds)],
            env=dict(env),
            stdin=None if has_terminal else subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=[*fds, *more_fds],
            # Another user gets a session, and so a group: in ours it could type into our terminal (TIOCSTI).
            # One that has the terminal stays in our group: only the one in front may read what is typed.
            process_group=None if user.is_another or has_terminal else 0,
            start_new_session=user.is_another,
            umask=handlers_umask(),
            user=user.uid,
            group=user.gid,
            extra_groups=user.groups,
        )


def _to_write(fd: int, stack: contextlib.ExitStack) -> int | None:
    """Return a descriptor to where `fd` leads if that is a terminal, opened for writing only; None: as it is.

    Through the processor's own descriptor a worker of another user could read what is typed there.
    """
    if not os.isatty(fd):
        return None
    opened = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    stack.callback(os.close, opened)
    return opened

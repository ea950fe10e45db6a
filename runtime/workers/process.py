"""One worker process, as its processor sees it: start it, talk to it, kill it, reap it."""

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
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.progress_slot import Progress, ProgressSlot
from headrace.runtime.wire.records import Buffer, FrameKind, ProtocolViolationError
from headrace.runtime.wire.stack_dump import StackDump, place_in
from headrace.runtime.wire.start import WorkerStart, encode_start
from headrace.runtime.workers.channel import Channel, OnFrame

_SEND_BUFFER_BYTES = 1 << 20
ASK_SECONDS = 0.2


_serials = count()
EndSession = Callable[[str], Awaitable[object]]


class WorkerProcess:
    """A process that has a mark in its environment: a kill takes what it started.

    It leads its own group, but for one with a terminal.

    `exited` is done once the process is reaped, everything that it said has been passed to `on_frame`, and
    what it ran on Spark has been ended: records that it held may then go elsewhere. It runs as `user`, whose
    part of the environment is in `env` already.
    Raises OSError where the machine has no room for another process.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # what a worker is made of
        self,
        start: WorkerStart,
        env: Mapping[str, str],
        on_frame: OnFrame,
        lease: Lease,
        end_session: EndSession | None = None,
        user: ProcessUser = OURS,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.spark_session_id = start.spark_session_id
        self._end_session = end_session
        self._kills = lease.kills
        self._last_sweep = lease.kills.last_sweep
        self._index = start.worker_id
        self._mark = f"{lease.kills.mark}{next(_serials)}."
        self._is_reaped = False
        self._folder = start.folder
        self.was_asked = False
        self.was_in = ""
        """All that its main thread was in, where it was asked before its end; empty until it is reaped."""
        self._session_end: asyncio.Task[None] | None = None
        self.exited: asyncio.Future[int] = loop.create_future()
        with contextlib.ExitStack() as on_failure:
            self.slot = ProgressSlot.create(lease, start.places)
            on_failure.callback(self.slot.close)
            self._stacks = StackDump()
            on_failure.callback(self._stacks.take)
            ours, theirs = socket.socketpair()
            on_failure.callback(ours.close)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            with theirs:
                fds = [theirs.fileno(), self.slot.fd, lease.fd, self._stacks.fd]
                more = [start.spark_token_fd] if start.spark_token_fd >= 0 else []
                own_env = {**env, MARK: self._mark}
                self._popen = _spawn(fds, more, own_env, user, has_terminal=start.has_terminal)
            on_failure.callback(self._popen.kill)
            # Its death is its exit, not the end of its socket: what a handler has forked may hold that open.
            self._pidfd = os.pidfd_open(self._popen.pid)
            on_failure.pop_all()
        lease.kills.hold(self._index, self.pid)
        loop.add_reader(self._pidfd, self._reap)
        self._on_frame = on_frame
        self.on_read: Callable[[], None] = lambda: None
        """Called after the frames of each read were passed to `on_frame`. Its owner sets it."""
        self.on_nonsense: Callable[[str], None] = lambda _: None
        """Called once, where it says what can't be; then it is killed. Its owner sets it."""
        listen = self._listen if start.spark_url else on_frame
        self._channel = Channel(
            ours,
            listen,
            on_read=self._tell_read,
            on_end=self.kill,
            on_nonsense=self._tell_nonsense,
        )
        self.send(encode_start(start))

    @property
    def pid(self) -> int:
        """Also its process group."""
        return self._popen.pid

    @property
    def is_alive(self) -> bool:
        """Not reaped yet."""
        return not self._is_reaped

    @property
    def is_swept(self) -> bool:
        """Its lease ended, and so it was ended too."""
        return self._kills.last_sweep != self._last_sweep

    def send(self, *data: Buffer) -> None:
        """One or more frames, in pieces. Never blocks."""
        self._channel.send(*data)

    def flush(self) -> None:
        """Have what was sent leave now."""
        self._channel.flush()

    def read_progress(self) -> Progress | None:
        """The slot, once all that the worker said before it wrote that has been passed to `on_frame`.

        None where some of that could not be taken in: then the slot says nothing. Not from within `on_frame`.
        """
        # The slot first: what was said before it moved is known once the socket is read after it.
        progress = self.slot.read()
        self._channel.read_available()
        return None if self._channel.is_broken else progress

    def refuse(self, why: str) -> None:
        """It said what can't be: nothing more of it is heard, and it is killed."""
        self._channel.refuse(why)

    def kill(self) -> None:
        """SIGKILL to the process and its group; what has left that follows when it is reaped. Idempotent."""
        if self.is_alive:
            for kill in (os.killpg, os.kill):  # it may have left its own group
                with contextlib.suppress(ProcessLookupError):
                    kill(self.pid, signal.SIGKILL)

    def kill_asking(self) -> None:
        """As `kill`, and have it say what it is in before: it has a moment for that, whatever it is in."""
        if self.is_alive:
            self.ask()
            asyncio.get_running_loop().call_later(ASK_SECONDS, self.kill)

    def ask(self) -> None:
        """Have it say what it is in."""
        self.was_asked = True
        with contextlib.suppress(ProcessLookupError):
            self._stacks.ask(self.pid)

    @property
    def was_at(self) -> str:
        """`function, file:line` of the handler's code, of `was_in`; empty where that is."""
        return place_in(self.was_in, self._folder)

    def _tell_read(self) -> None:
        self.on_read()

    def _tell_nonsense(self, why: str) -> None:
        self.on_nonsense(why)

    def _listen(self, kind: FrameKind, body: bytes) -> None:
        if kind is FrameKind.SPARK_SESSION:
            self.spark_session_id = _session_id(body)
        else:
            self._on_frame(kind, body)

    def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.kill()  # before the wait: until then the group's number is surely still its own
        self._kills.release(self._index)
        code = self._popen.wait()
        kill_marked(self._mark)
        self._is_reaped = True
        self.was_in = self._stacks.take()
        self._channel.drain_and_close()
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
    """Where it leads, opened anew if it is a terminal: ours can read what is typed there. None: as it is."""
    if not os.isatty(fd):
        return None
    opened = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    stack.callback(os.close, opened)
    return opened

"""What a supervisor and a replica hear of each other: this one is up, and turns, and the other is gone."""

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.processes import is_stopped

_STOP_MARGIN_SECONDS = 20.0
# A loop that turns hears of it at once; one that is held for so long may be held for ever.
_HEED_SECONDS = 5.0
_BEAT_SECONDS = 1.0
# Turns of the supervisor, not time: when the machine sleeps, nobody is late.
_SILENT_TURNS = 30
SILENT_SECONDS = _BEAT_SECONDS * _SILENT_TURNS
_UP, _TURNS = b"\1", b"\0"


def stop_seconds(functions: Iterable[FunctionSpec]) -> float:
    """How long a replica of these may take to stop."""
    waits = (spec.worker_termination_timeout_seconds for f in functions for spec in f.triggers)
    return _STOP_MARGIN_SECONDS + max(waits, default=0)


class ReplicaHeartbeat:
    """The supervisor's end, on the running event loop. It closes when this process dies, whatever way."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._ours, self._read)
        self.has_been_up = False
        """Its handlers were loaded."""
        self._has_turned = self._has_ever_turned = False

    @property
    def replica_fd(self) -> int:
        """For the replica to inherit."""
        return self._theirs.fileno()

    def on_started(self) -> None:
        """The replica has its end, or there will be none."""
        self._theirs.close()

    def close(self) -> None:
        """Have the replica stop. Idempotent."""
        if self._ours.fileno() >= 0:
            self._read()
            self._loop.remove_reader(self._ours)
            self._ours.close()

    async def until_silent(self, pid: int) -> None:
        """Return when the event loop of the replica, `pid`, has not turned for long: it may never again.

        One that somebody has stopped, as a debugger does, is not to blame.
        """
        turns = 0
        while turns < _SILENT_TURNS:
            await asyncio.sleep(_BEAT_SECONDS)
            is_silent = self._has_ever_turned and not self._has_turned and not is_stopped(pid)
            turns = turns + 1 if is_silent else 0
            self._has_turned = False

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # nothing was said, or the replica has died with something unread
            if said := self._ours.recv(4096, socket.MSG_DONTWAIT):
                self.has_been_up |= _UP in said
                self._has_turned = self._has_ever_turned = True
                return
        self._loop.remove_reader(self._ours)


class SupervisorLink:
    """The replica's end."""

    def __init__(self, fd: int, stop: Callable[[], None], stop_seconds: float) -> None:
        """`stop` is called on the running event loop when the supervisor is gone, or says so.

        Should the loop not turn, or the stop take longer than `stop_seconds`, this process just ends: nobody
        is left to kill it.
        """
        self._socket = socket.socket(fileno=fd)
        self._loop = asyncio.get_running_loop()
        self._stop = stop
        self._stop_seconds = stop_seconds
        self._is_heeded = threading.Event()
        threading.Thread(target=self._wait_for_end, name="headrace-parent", daemon=True).start()
        self._beat()

    def tell_up(self) -> None:
        """All handlers are loaded."""
        self._say(_UP)

    def _beat(self) -> None:
        self._say(_TURNS)
        self._loop.call_later(_BEAT_SECONDS, self._beat)

    def _say(self, what: bytes) -> None:
        with contextlib.suppress(OSError):  # it is gone, or has long not listened
            self._socket.send(what, socket.MSG_DONTWAIT)

    def _wait_for_end(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.recv(1)
        with contextlib.suppress(RuntimeError):  # the loop is closed: this process is about to end
            self._loop.call_soon_threadsafe(self._heed)
        if not self._is_heeded.wait(_HEED_SECONDS):
            _end("its event loop does not turn")
        time.sleep(self._stop_seconds)
        _end(f"it did not stop within {self._stop_seconds:.0f} s")

    def _heed(self) -> None:
        self._is_heeded.set()
        self._stop()


def _end(why: str) -> None:
    # Not by the log, whose lock whoever holds the loop may hold as well.
    os.write(2, f"headrace: the supervisor is gone, and so is this replica: {why}\n".encode())
    os._exit(1)  # workers die with this process

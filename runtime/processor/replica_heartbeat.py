"""Heartbeat between a replica and its supervisor, over a socket pair that closes when either of them dies.

The replica sends a byte at each turn of its event loop, and one once its handlers are loaded. The supervisor
sends nothing: it closes its end to stop the replica.
"""

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.processes import is_stopped

# For what a stop does besides waiting for handlers: late acks, the last commits, leaving the group.
_STOP_MARGIN_SECONDS = 20.0
# A loop that turns notices the supervisor's end at once; one that is held for so long may be held for ever.
_NOTICE_SECONDS = 5.0
_BEAT_SECONDS = 1.0
# Counted in turns of the supervisor, not by a clock: when the machine sleeps, nobody is late.
_SILENT_TURNS = 30
SILENT_SECONDS = _BEAT_SECONDS * _SILENT_TURNS
_LOADED, _TURNED = b"\1", b"\0"


def stop_seconds(functions: Iterable[FunctionSpec]) -> float:
    """Return how long a replica of these functions may take to stop."""
    waits = (spec.worker_termination_timeout_seconds for f in functions for spec in f.triggers)
    return _STOP_MARGIN_SECONDS + max(waits, default=0)


class ReplicaHeartbeat:
    """Supervisor's end of the socket, on the running event loop. It closes however this process dies."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._ours, self._read)
        self.has_been_up = False
        """Whether the replica's handlers were loaded."""
        self._has_turned = self._has_ever_turned = False

    @property
    def replica_fd(self) -> int:
        """Descriptor of the replica's end, for the replica to inherit."""
        return self._theirs.fileno()

    def on_started(self) -> None:
        """Close our copy of the replica's end, once the replica has it, or can't be started.

        While a copy is open here, the end of the replica is no end of the socket.
        """
        self._theirs.close()

    def close(self) -> None:
        """Have the replica stop. Idempotent."""
        if self._ours.fileno() >= 0:
            # What has come by now counts: whether it has been up is asked after its end.
            self._read()
            self._loop.remove_reader(self._ours)
            self._ours.close()

    async def until_silent(self, pid: int) -> None:
        """Return when the event loop of the replica, `pid`, has not turned for SILENT_SECONDS.

        A replica that somebody has stopped, as a debugger does, doesn't count as silent.
        """
        turns = 0
        while turns < _SILENT_TURNS:
            await asyncio.sleep(_BEAT_SECONDS)
            # Before its first turn a replica imports its modules, which may take long.
            is_silent = self._has_ever_turned and not self._has_turned and not is_stopped(pid)
            turns = turns + 1 if is_silent else 0
            self._has_turned = False

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # nothing to read, or the replica has died with bytes unread
            if received := self._ours.recv(4096, socket.MSG_DONTWAIT):
                self.has_been_up |= _LOADED in received
                self._has_turned = self._has_ever_turned = True
                return
        # A socket at its end stays readable: the loop would call this without a pause.
        self._loop.remove_reader(self._ours)


class SupervisorLink:
    """Replica's end of the socket: sends heartbeats, and stops the replica when the supervisor is gone."""

    def __init__(self, fd: int, stop: Callable[[], None], stop_seconds: float) -> None:
        """`stop` is called on the running event loop when the supervisor is gone, or says so.

        Should the loop not turn, or the stop take longer than `stop_seconds`, this process just ends: nobody
        is left to kill it.
        """
        self._socket = socket.socket(fileno=fd)
        self._loop = asyncio.get_running_loop()
        self._stop = stop
        self._stop_seconds = stop_seconds
        self._has_noticed = threading.Event()
        threading.Thread(target=self._wait_for_end, name="headrace-parent", daemon=True).start()
        self._beat()

    def report_loaded(self) -> None:
        """Tell the supervisor that all handlers are loaded."""
        self._send(_LOADED)

    def _beat(self) -> None:
        self._send(_TURNED)
        self._loop.call_later(_BEAT_SECONDS, self._beat)

    def _send(self, beat: bytes) -> None:
        with contextlib.suppress(OSError):  # the supervisor is gone, or has not read for long
            self._socket.send(beat, socket.MSG_DONTWAIT)

    def _wait_for_end(self) -> None:
        # On a thread, so that a replica whose event loop hangs ends too when nobody is left to kill it.
        with contextlib.suppress(OSError):
            self._socket.recv(1)
        with contextlib.suppress(RuntimeError):  # the loop is closed: this process is about to end
            self._loop.call_soon_threadsafe(self._on_supervisor_gone)
        if not self._has_noticed.wait(_NOTICE_SECONDS):
            _end("its event loop does not turn")
        time.sleep(self._stop_seconds)
        _end(f"it did not stop within {self._stop_seconds:.0f} s")

    def _on_supervisor_gone(self) -> None:
        self._has_noticed.set()
        self._stop()


def _end(why: str) -> None:
    # Not through logging: whatever blocks the event loop may hold its lock as well.
    os.write(2, f"headrace: the supervisor is gone, and so is this replica: {why}\n".encode())
    os._exit(1)  # workers die with this process

"""Processes that end with a lease. Shared by a processor and its fence: no worker ever has this memory."""

import contextlib
import os
import secrets
import signal
import weakref

from headrace.runtime.processes import kill_marked
from headrace.runtime.wire import shared_memory

# Words: the end of the lease that was swept last, the mark of this list, then a pid for each worker.
_SWEPT, _MARK, _PIDS = 0, 1, 2


class KillList:
    """Workers of one trigger, by index. The processor writes it, but for the note of the last sweep."""

    def __init__(self, fd: int) -> None:
        """`fd`: made by `create`."""
        self.fd = fd
        self._words = memoryview(shared_memory.map_writable(fd)).cast("Q")

    @classmethod
    def create(cls, worker_count: int) -> "KillList":
        """Make an empty one. Its descriptor is inherited only where passed on, and closed with the object."""
        fd = shared_memory.create("headrace-kill-list", _PIDS + worker_count)
        made = cls(fd)
        weakref.finalize(made, os.close, fd)
        # So that no two lists, of whatever run, have marks that begin alike.
        made._words[_MARK] = secrets.randbits(64)
        return made

    @property
    def mark(self) -> str:
        """Beginning of the MARK of a worker that is started now."""
        return f"{self._of_all}{self.last_sweep:x}."

    @property
    def _of_all(self) -> str:
        return f"{self._words[_MARK]:016x}."

    @property
    def last_sweep(self) -> int:
        """Mark of the last sweep: where it has changed, a fence has meanwhile ended all processes."""
        return self._words[_SWEPT]

    def hold(self, index: int, pid: int) -> None:
        """Note that worker `index` has this process, which leads its own group."""
        self._words[_PIDS + index] = pid

    def release(self, index: int) -> None:
        """Note that the process of worker `index` has ended.

        To be called before the kernel may give its number to another.
        """
        self._words[_PIDS + index] = 0

    # ---- for the fence

    def sweep(self, end_ns: int | None) -> None:
        """End the workers and what they have started, where their lease has ended: once for each end.

        `end_ns`: when it ended, by wire/lease.py; None while it lasts.
        """
        if end_ns is None or end_ns == self._words[_SWEPT]:
            return
        # First: whoever reaps a worker has to know why it died.
        self._words[_SWEPT] = end_ns
        # Those that follow the ended ones may be there before all of these are found. They hold nothing yet.
        self.kill_all(except_mark=self.mark)

    def kill_all(self, except_mark: str = "") -> None:
        """End all workers and what they have started, but for those whose MARKs begin with `except_mark`."""
        for pid in self._words[_PIDS:]:
            # 0 is an empty place, and 1 would stand for every process that there is.
            if pid > 1:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
        # What has left its group still has the mark in its environment.
        kill_marked(self._of_all, except_mark)

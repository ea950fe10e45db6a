"""Which processes end with a lease. Shared by a processor and its fence: no worker ever has this memory."""

import contextlib
import os
import secrets
import signal
import weakref

from headrace.runtime.processes import kill_marked
from headrace.runtime.wire import shared_memory

_SWEPT, _MARK, _PIDS = 0, 1, 2


class KillList:
    """The workers of one trigger, by index. Written by the processor, but for the note of the last sweep."""

    def __init__(self, fd: int) -> None:
        """`fd` is what `create` has made."""
        self.fd = fd
        self._words = memoryview(shared_memory.map_writable(fd)).cast("Q")

    @classmethod
    def create(cls, worker_count: int) -> "KillList":
        """Its file descriptor is inherited by no process unless passed on, and closed with the object."""
        fd = shared_memory.create("headrace-kill-list", _PIDS + worker_count)
        made = cls(fd)
        weakref.finalize(made, os.close, fd)
        made._words[_MARK] = secrets.randbits(64)  # its own
        return made

    @property
    def mark(self) -> str:
        """What the MARK of a worker that is started now begins with."""
        return f"{self._of_all}{self.last_sweep:x}."

    @property
    def _of_all(self) -> str:
        return f"{self._words[_MARK]:016x}."

    @property
    def last_sweep(self) -> int:
        """Another value than before: a fence has meanwhile ended all processes."""
        return self._words[_SWEPT]

    def hold(self, index: int, pid: int) -> None:
        """Worker `index` has this process, which leads its own group."""
        self._words[_PIDS + index] = pid

    def release(self, index: int) -> None:
        """That process has ended. To be called before its number may be given to another."""
        self._words[_PIDS + index] = 0

    # ---- for the fence

    def sweep(self, end_ns: int | None) -> None:
        """Their lease has ended then, or lasts: end them and what they have started, once for each end."""
        if end_ns is None or end_ns == self._words[_SWEPT]:
            return
        self._words[_SWEPT] = end_ns  # first: whoever reaps a worker wants to know why it died
        # Those that follow the ended ones may be there before all of these are found. They hold nothing yet.
        self.kill_all(but=self.mark)

    def kill_all(self, but: str = "") -> None:
        """End all workers and what they have started, but for those whose MARKs begin so."""
        for pid in self._words[_PIDS:]:
            if pid > 1:  # 1 stands for every process that there is
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
        kill_marked(self._of_all, but)

"""How long the workers of a trigger may run what they hold: until somebody else may have been given it.

Memory that a processor shares with its workers and their fence: the processor says when the lease ends, and a
process that is frozen can't take that back. docs/design/fencing-and-rebalance.md.
"""

import contextlib
import mmap
import os
import secrets
import signal
import weakref

from headrace.runtime.processes import kill_marked
from headrace.runtime.wire.clock import now_ns

_NEVER = 2**64 - 1
_END, _SWEPT, _MARK, _PIDS = 0, 1, 2, 3  # words


class Lease:
    """The times are ns by wire/clock.py, which all processes share.

    A new one never ends: that is so wherever nobody else could be given the records.
    """

    def __init__(self, fd: int) -> None:
        """`fd` is what `create` has made; whoever has inherited it sees the same lease."""
        self.fd = fd
        self.words = memoryview(mmap.mmap(fd, 0)).cast("Q")
        """The first one is when it ends."""
        self._is_in_force = False
        self._known_end_ns = 0

    @classmethod
    def create(cls, worker_count: int) -> "Lease":
        """Its file descriptor is inherited by no process unless passed on, and closed with the object."""
        fd = os.memfd_create("headrace-lease")
        os.ftruncate(fd, 8 * (_PIDS + worker_count))
        lease = cls(fd)
        weakref.finalize(lease, os.close, fd)
        lease.words[_END] = _NEVER
        lease.words[_MARK] = secrets.randbits(64)
        return lease

    @property
    def mark(self) -> str:
        """What the MARKs of its workers begin with."""
        return f"{self.words[_MARK]:016x}."

    @property
    def is_over(self) -> bool:
        """Nothing may start any more."""
        return self.left_seconds <= 0

    @property
    def left_seconds(self) -> float:
        """How long it still lasts, as far as is known now."""
        return (self.words[_END] - now_ns()) / 1e9

    # ---- for the processor

    def renew(self, end_ns: int) -> None:
        """What the workers hold, or will be given, is theirs until `end_ns` at least."""
        self._known_end_ns = max(self._known_end_ns, end_ns)
        if self._is_in_force:
            self.words[_END] = self._known_end_ns

    def begin(self) -> None:
        """Records are about to be handed out that somebody else is given when it ends."""
        self._is_in_force = True
        self.words[_END] = self._known_end_ns

    def lift(self) -> None:
        """The workers hold nothing."""
        self._is_in_force = False
        self.words[_END] = _NEVER

    def hold(self, index: int, pid: int) -> None:
        """Worker `index` has this process, which leads its own group."""
        self.words[_PIDS + index] = pid

    def release(self, index: int) -> None:
        """That process has ended. To be called before its number may be given to another."""
        self.words[_PIDS + index] = 0

    @property
    def last_sweep(self) -> int:
        """Another value than before: a fence has meanwhile ended all processes."""
        return self.words[_SWEPT]

    # ---- for the fence

    def sweep(self) -> None:
        """Where it is over, end all workers and what they have started; once for each end."""
        end_ns = self.words[_END]  # read once: it may be lifted or renewed meanwhile
        if end_ns > now_ns() or end_ns == self.words[_SWEPT]:
            return
        self.words[_SWEPT] = end_ns  # first: whoever reaps a worker wants to know why it died
        self.kill_all()

    def kill_all(self) -> None:
        """End all workers and what they have started."""
        for pid in filter(None, self.words[_PIDS:]):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        kill_marked(self.mark)

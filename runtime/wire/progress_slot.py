"""Memory that a processor shares with a worker: which record the worker is in, and what it has acked.

docs/design/wire.md, "Progress slot", says what the word promises when a worker dies.
"""

import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from headrace.runtime.processes import die
from headrace.runtime.wire.ack_slot import WORDS as ACK_WORDS
from headrace.runtime.wire.ack_slot import AckSlot
from headrace.runtime.wire.clock import now_ns
from headrace.runtime.wire.lease import Lease

_WORDS = 2
_SIZE = 8 * (_WORDS + ACK_WORDS)


@dataclass(frozen=True, slots=True)
class Progress:
    """A reading. `seq` is the record that runs, or when idle the next; `since_ns` is by wire/clock.py."""

    seq: int
    is_running: bool
    since_ns: int


class ProgressSlot:
    """Written by the worker alone, with single aligned stores: a kill between two leaves a true word.

    The word is `2 * seq + 1` while record seq runs, `2 * seq` once everything before seq is done.
    """

    __slots__ = ("_die", "_lease", "_memory", "_words", "acks", "fd")

    def __init__(self, fd: int, lease: Lease, die: Callable[[], NoReturn] = die) -> None:
        """No record is entered once `lease` is over: `die` instead. `fd` -1: memory of this process alone."""
        self.fd = fd
        self._die = die
        self._lease = lease.words
        self._use(fd)

    def _use(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, _SIZE, mmap.MAP_PRIVATE if fd < 0 else mmap.MAP_SHARED)
        words = memoryview(self._memory).cast("Q")
        self._words = words[:_WORDS]
        self.acks = AckSlot(words[_WORDS:])

    def abandon(self) -> None:
        """In a process that the handler has forked: it shares the memory, and has no part in it."""
        self._use(-1)

    @classmethod
    def create(cls, lease: Lease) -> "ProgressSlot":
        """A new one, at 0. Its file descriptor is inherited by no process unless passed on."""
        fd = os.memfd_create("headrace-progress")
        os.ftruncate(fd, _SIZE)
        return cls(fd, lease)

    def enter(self, seq: int) -> None:
        """Record `seq` starts now; where the lease is over, this process ends instead."""
        now = now_ns()
        if now > self._lease[0]:
            self.leave(seq)  # the record before this one is done: it must not be blamed for this end
            self._die()
        # The time first: a reader may see a new time with an old record, never an old time with a new one.
        self._words[1] = now
        self._words[0] = 2 * seq + 1

    def leave(self, next_seq: int) -> None:
        """Everything before `next_seq` is done, and `next_seq` has not started."""
        self._words[0] = 2 * next_seq

    def read(self) -> Progress:
        """What the worker said last."""
        word = self._words[0]
        return Progress(word >> 1, bool(word & 1), self._words[1])

    def close(self) -> None:
        """Give the memory back; idempotent."""
        if not self._memory.closed:
            self._words.release()
            self.acks.release()
            self._memory.close()
            if self.fd >= 0:
                os.close(self.fd)

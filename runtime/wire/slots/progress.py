"""Memory that a processor shares with a worker: which records the worker is in, and what it has acked.

docs/design/wire.md, "Progress slot", says what the word promises when a worker dies.
"""

import mmap
import os
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from headrace.runtime.processes import die
from headrace.runtime.wire import shared_memory
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.slots.acks import ACK_WORDS, AckSlot
from headrace.runtime.wire.slots.calls import WORDS_PER_CALL, CallSlots

_WORDS = 2
_MOST_PLACES = 1000


class Progress(NamedTuple):
    """A reading. `seq` is the record that runs, or when idle the next; `since_ns` is by time.monotonic_ns."""

    seq: int
    is_running: bool
    since_ns: int


class ProgressSlot:
    """Written by the worker alone, with single aligned stores: a kill between two leaves a true word.

    The word is `2 * seq + 1` while record seq runs, `2 * seq` once everything before seq is done. Where
    several run at once it stays 0, and `calls` says which.
    """

    __slots__ = ("_die", "_lease", "_lease_words", "_memory", "_words", "acks", "calls", "fd")

    def __init__(self, fd: int, lease: Lease, die: Callable[[], NoReturn] = die) -> None:
        """No record is entered once `lease` is over: `die` instead. `fd` -1: memory of this process alone."""
        self.fd = fd
        self._die = die
        self._lease = lease
        self._lease_words = lease.words
        self._use(fd)

    def _use(self, fd: int) -> None:
        size = _size(_MOST_PLACES)
        self._memory = mmap.mmap(-1, 8 * size, mmap.MAP_PRIVATE) if fd < 0 else shared_memory.map_writable(fd)
        words = memoryview(self._memory).cast("Q")
        self._words = words[:_WORDS]
        self.acks = AckSlot(words[_WORDS : _size(0)])
        self.calls = CallSlots(words[_size(0) :])

    def abandon(self) -> None:
        """In a process that the handler has forked: it shares the memory, and has no part in it."""
        self._use(-1)

    @classmethod
    def create(cls, lease: Lease, places: int = 0) -> "ProgressSlot":
        """A new one, at 0, with places for so many records at once; 0: one after another.

        Its file descriptor is inherited by no process unless passed on.
        """
        return cls(shared_memory.create("headrace-progress", _size(places)), lease)

    @classmethod
    def take(cls, fd: int, lease: Lease) -> "ProgressSlot":
        """In the worker: bytes that the handler writes to descriptors that it happens on don't get here."""
        slot = cls(fd, lease)
        shared_memory.keep_to_writer(fd)
        return slot

    def enter_run(self, seq: int) -> None:
        """As `enter`, for the first record of a run: after a suspend of the machine, too, none starts."""
        if self._lease.is_over:
            self._end(seq)
        self.enter(seq)

    def enter(self, seq: int) -> int:
        """Record `seq` starts now, which is returned; where the lease is over, this process ends instead."""
        now = time.monotonic_ns()
        if now > self._lease_words[0]:
            self._end(seq)
        words = self._words
        # The time first: a reader may see a new time with an old record, never an old time with a new one.
        words[1] = now
        words[0] = 2 * seq + 1
        return now

    def enter_beside(self, seq: int) -> None:
        """Record `seq` starts now, beside others; where the lease is over, this process ends instead."""
        self._check_lease()
        self.calls.enter(seq, time.monotonic_ns())

    def begin_beside(self, seq: int) -> None:
        """The turn of record `seq` has come, which was entered before; with the lease as above."""
        self._check_lease()
        self.calls.begin(seq, time.monotonic_ns())

    def _check_lease(self) -> None:
        if self._lease.is_over:
            self.calls.leave_all()  # nothing that runs must be blamed for this end
            self._die()

    def _end(self, seq: int) -> None:
        self.leave(seq)  # the record before this one is done: it must not be blamed for this end
        self._die()

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
            self.calls.release()
            self._memory.close()
            if self.fd >= 0:
                os.close(self.fd)


def _size(places: int) -> int:
    return _WORDS + ACK_WORDS + WORDS_PER_CALL * places

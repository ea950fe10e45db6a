"""How long the workers of a trigger may run what they hold: until somebody else may have been given it.

Memory that a processor shares with its workers and their fence: the processor says when the lease ends, and a
process that is frozen can't take that back. docs/design/fencing-and-rebalance.md.
"""

import os
import time
import weakref
from functools import partial

from headrace.runtime.wire import shared_memory
from headrace.runtime.wire.kill_list import KillList

# The time of a suspended machine counts: its partitions went to others meanwhile. Where no clock has that
# (macOS), the monotonic one has to do.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


now_ns = partial(time.clock_gettime_ns, _CLOCK)


"""ns since some beginning."""


_NEVER = 2**64 - 1


# Words. The end is there twice: by wire/clock.py, and by the clock that is cheap enough for each record.
_END_MONOTONIC, _END = 0, 1


_WORDS = 2


class Lease:
    """The times are ns by wire/clock.py, which all processes share.

    A new one never ends: that is so wherever nobody else could be given the records.
    """

    def __init__(self, fd: int, words: memoryview | None = None) -> None:
        """`fd` is what `create` has made: who has inherited it sees the same lease, and can't change it."""
        self.fd = fd
        self.words = memoryview(shared_memory.map_readable(fd)).cast("Q") if words is None else words
        """The first one is when it ends, by time.monotonic_ns: not counting a suspended machine's time."""
        self.kills: KillList
        """Where it is the processor's: who ends with it."""
        self._is_in_force = False
        self._known_end_ns = 0

    @classmethod
    def create(cls, worker_count: int) -> "Lease":
        """Its descriptor is inherited by no process unless passed on, and closed with the object."""
        fd = shared_memory.create("headrace-lease", _WORDS)
        lease = cls(fd, memoryview(shared_memory.map_writable(fd)).cast("Q"))
        shared_memory.keep_to_writer(fd)
        weakref.finalize(lease, os.close, fd)
        lease.kills = KillList.create(worker_count)
        lease.lift()
        return lease

    @property
    def is_over(self) -> bool:
        """Nothing may start any more."""
        return self.words[_END] <= now_ns()

    @property
    def left_seconds(self) -> float:
        """How long it still lasts, as far as is known now."""
        return (self.words[_END] - now_ns()) / 1e9

    @property
    def ended_ns(self) -> int | None:
        """When it ended; None while it lasts."""
        end_ns = self.words[_END]  # read once: it may be lifted or renewed meanwhile
        return end_ns if end_ns <= now_ns() else None

    # ---- for the processor

    def renew(self, end_ns: int) -> None:
        """What the workers hold, or will be given, is theirs until `end_ns` at least."""
        self._known_end_ns = max(self._known_end_ns, end_ns)
        if self._is_in_force:
            self.end_at(self._known_end_ns)

    def begin(self) -> None:
        """Records are about to be handed out that somebody else is given when it ends."""
        self._is_in_force = True
        self.end_at(self._known_end_ns)

    def lift(self) -> None:
        """The workers hold nothing."""
        self._is_in_force = False
        self.words[_END] = self.words[_END_MONOTONIC] = _NEVER

    def end_at(self, end_ns: int) -> None:
        """By wire/clock.py, and earlier too."""
        awake_ns = time.monotonic_ns()  # first: whatever comes between makes this end the earlier one
        self.words[_END] = end_ns
        self.words[_END_MONOTONIC] = max(0, awake_ns + end_ns - now_ns())

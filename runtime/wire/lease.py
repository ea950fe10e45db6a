"""The lease of a trigger's workers: until when they may run what they hold.

After that somebody else may have been given it.

Memory that a processor shares with its workers and their fence: the processor says when the lease ends, and a
process that is frozen can't take that back. docs/design/fencing-and-rebalance.md.
"""

import os
import time
import weakref
from functools import partial

from headrace.runtime.wire import shared_memory
from headrace.runtime.wire.kill_list import KillList

# The clock of leases, the same in all processes. The time of a suspended machine counts: its partitions went
# to others meanwhile. Where no clock has that (macOS), the monotonic one has to do.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

now_ns = partial(time.clock_gettime_ns, _CLOCK)
"""Return the time of the leases' clock: ns since some beginning."""

_NEVER = 2**64 - 1
# Words. The end is there twice: by the leases' clock, and by the one that is cheap enough for each record.
_END_MONOTONIC, _END = 0, 1
_WORDS = 2


class Lease:
    """A lease, in memory that a processor shares with its workers and their fence. Times are by `now_ns`.

    A new one never ends: that is so wherever nobody else could be given the records.
    """

    def __init__(self, fd: int, words: memoryview | None = None) -> None:
        """`fd`: made by `create`. A process that inherits it sees the same lease, and can't change it."""
        self.fd = fd
        self.words = memoryview(shared_memory.map_readable(fd)).cast("Q") if words is None else words
        """Words of the memory. The first is the end by time.monotonic_ns, which doesn't count a suspend."""
        self.kills: KillList
        """Processes that end with it; in the processor only."""
        self._is_in_force = False
        self._known_end_ns = 0

    @classmethod
    def create(cls, worker_count: int) -> "Lease":
        """Make a new one. Its descriptor is inherited only where passed on, and closed with the object."""
        fd = shared_memory.create("headrace-lease", _WORDS)
        lease = cls(fd, memoryview(shared_memory.map_writable(fd)).cast("Q"))
        # Workers and fence inherit the descriptor: they can read the lease, and none can extend it.
        shared_memory.keep_to_writer(fd)
        weakref.finalize(lease, os.close, fd)
        lease.kills = KillList.create(worker_count)
        lease.lift()
        return lease

    @property
    def is_over(self) -> bool:
        """Whether nothing may start any more."""
        return self.words[_END] <= now_ns()

    @property
    def left_seconds(self) -> float:
        """Time that it still lasts, as far as is known now."""
        return (self.words[_END] - now_ns()) / 1e9

    @property
    def ended_ns(self) -> int | None:
        """Time at which it ended; None while it lasts."""
        # Read once: it may be lifted or renewed meanwhile.
        end_ns = self.words[_END]
        return end_ns if end_ns <= now_ns() else None

    # ---- for the processor

    def renew(self, end_ns: int) -> None:
        """Extend it: what the workers hold, or will be given, is theirs until `end_ns` at least."""
        self._known_end_ns = max(self._known_end_ns, end_ns)
        # Heartbeats renew it before records are handed out as well: then the end is kept for later.
        if self._is_in_force:
            self.end_at(self._known_end_ns)

    def begin(self) -> None:
        """Put it in force: records are about to be handed out that somebody else is given when it ends."""
        self._is_in_force = True
        self.end_at(self._known_end_ns)

    def lift(self) -> None:
        """Have it never end: the workers hold nothing."""
        self._is_in_force = False
        self.words[_END] = self.words[_END_MONOTONIC] = _NEVER

    def end_at(self, end_ns: int) -> None:
        """Have it end at `end_ns`, which may be earlier than its present end."""
        # Before now_ns: whatever comes between the two makes this end the earlier one.
        awake_ns = time.monotonic_ns()
        self.words[_END] = end_ns
        self.words[_END_MONOTONIC] = max(0, awake_ns + end_ns - now_ns())

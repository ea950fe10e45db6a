"""Memory that a processor shares with a worker: which records the worker is in, and what it has acked.

docs/design/wire.md, "Progress slot", says what its words promise when a worker dies. The worker alone writes
them, on its main thread, with single aligned stores: a kill between two of them leaves true words.
"""

import mmap
import os
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from headrace.runtime.processes import die
from headrace.runtime.wire import shared_memory
from headrace.runtime.wire.lease import Lease

# Layout, in words of 8 bytes: progress and since when; an acked span; two for each record that may run.
_PROGRESS_WORDS = 2
ACK_WORDS = 3
WORDS_PER_CALL = 2
_MAX_CALLS = 1000

_KEY, _FIRST, _END = range(ACK_WORDS)
_ID_BITS = 32
_ID_MASK = 2**_ID_BITS - 1
_MAX_READS = 1000
_NONE = -1


class Progress(NamedTuple):
    """A reading. `seq` is the record that runs, or when idle the next; `since_ns` is by time.monotonic_ns."""

    seq: int
    is_running: bool
    since_ns: int


class RunningCall(NamedTuple):
    """A record that runs beside others, by seq; `since_ns` is by time.monotonic_ns."""

    seq: int
    since_ns: int


class AckedSpan(NamedTuple):
    """Offsets `[first, end)` of one lane that were acked, the `number`th span of its worker.

    The number tells a span that has grown from one of the same offsets, which came and were acked again.
    """

    lane_id: int
    first: int
    end: int
    number: int


class ProgressSlot:
    """Progress of a worker: `2 * seq + 1` while record seq runs, `2 * seq` once all before seq is done.

    Where several records run at once it stays 0, and `calls` says which. `acks`: what was acked and not sent.
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
        size = _size(_MAX_CALLS)
        self._memory = mmap.mmap(-1, 8 * size, mmap.MAP_PRIVATE) if fd < 0 else shared_memory.map_writable(fd)
        words = memoryview(self._memory).cast("Q")
        self._words = words[:_PROGRESS_WORDS]
        self.acks = AckSlot(words[_PROGRESS_WORDS : _size(0)])
        self.calls = CallSlots(words[_size(0) :])

    def abandon(self) -> None:
        """Use memory of this process alone from now on: the handler has forked it, and the slot isn't its."""
        self._use(-1)

    @classmethod
    def create(cls, lease: Lease, places: int = 0) -> "ProgressSlot":
        """Make a new one, at 0, with places for so many records at once; 0: one after another.

        Its file descriptor is inherited by no process unless passed on.
        """
        return cls(shared_memory.create("headrace-progress", _size(places)), lease)

    @classmethod
    def take(cls, fd: int, lease: Lease) -> "ProgressSlot":
        """Open it in a worker: what the handler writes to descriptors that it happens on doesn't get here."""
        slot = cls(fd, lease)
        shared_memory.keep_to_writer(fd)
        return slot

    def enter_run(self, seq: int) -> None:
        """Enter the first record of a run. Sees an end of the lease amid a suspend, which `enter` doesn't."""
        if self._lease.is_over:
            self._end(seq)
        self.enter(seq)

    def enter(self, seq: int) -> int:
        """Note that record `seq` starts now, and return when. Where the lease is over, die instead."""
        now = time.monotonic_ns()
        # By time.monotonic_ns: the clock of leases is slower, by a twentieth of what a quick record costs.
        if now > self._lease_words[0]:
            self._end(seq)
        words = self._words
        # The time first: a reader may see a new time with an old record, never an old time with a new one.
        words[1] = now
        words[0] = 2 * seq + 1
        return now

    def enter_beside(self, seq: int) -> None:
        """Note that record `seq` starts now, beside others. Where the lease is over, die instead."""
        self._check_lease()
        self.calls.enter(seq, time.monotonic_ns())

    def begin_beside(self, seq: int) -> None:
        """Note that the turn of record `seq` has come. Where the lease is over, die instead."""
        self._check_lease()
        self.calls.begin(seq, time.monotonic_ns())

    def _check_lease(self) -> None:
        if self._lease.is_over:
            # Nothing that runs must be blamed for this end.
            self.calls.leave_all()
            self._die()

    def _end(self, seq: int) -> None:
        # The record before this one is done: it must not be blamed for this end.
        self.leave(seq)
        self._die()

    def leave(self, next_seq: int) -> None:
        """Note that everything before `next_seq` is done, and that `next_seq` has not started."""
        self._words[0] = 2 * next_seq

    def read(self) -> Progress:
        """Return what the worker wrote last, from any process."""
        # The word before the time: see `enter`. Each is read once, for the worker goes on.
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
    return _PROGRESS_WORDS + ACK_WORDS + WORDS_PER_CALL * places


class CallSlots:
    """A place for each record that may run beside others (maxConcurrency).

    A record keeps its place until its outcome is on its way: so when a worker dies, what runs by its place
    and has no outcome had started, and there are never more of those than places. One that has been decoded
    and waits for its turn has a place too, at time 0: it hasn't started.
    """

    __slots__ = ("_free", "_place_of", "_words")

    def __init__(self, words: memoryview) -> None:
        self._words = words
        self._free = list(range(len(words) // WORDS_PER_CALL))
        self._place_of: dict[int, int] = {}

    @property
    def has_place(self) -> bool:
        """Whether one more may be entered."""
        return bool(self._free)

    def enter(self, seq: int, now_ns: int) -> None:
        """Note that record `seq` starts now."""
        place = self._place_of[seq] = self._free.pop()
        at = WORDS_PER_CALL * place
        # The time first: a reader may see a new time with an old record, never an old time with a new one.
        self._words[at + 1] = now_ns
        self._words[at] = seq + 1

    def wait(self, seq: int) -> None:
        """Note that record `seq` has been decoded, and doesn't run before `begin`."""
        self._words[WORDS_PER_CALL * self._place_of[seq] + 1] = 0

    def begin(self, seq: int, now_ns: int) -> None:
        """Note that the turn of record `seq` has come."""
        self._words[WORDS_PER_CALL * self._place_of[seq] + 1] = now_ns

    def leave_all(self) -> None:
        """Note that nothing runs."""
        for seq in list(self._place_of):
            self.leave(seq)

    def leave(self, seq: int) -> None:
        """Note that the outcome of record `seq` is on its way. Idempotent."""
        if (place := self._place_of.pop(seq, None)) is not None:
            self._words[WORDS_PER_CALL * place] = 0
            self._free.append(place)

    def read(self) -> list[RunningCall]:
        """Return what runs, by seq, from any process."""
        words = self._words
        found = [(words[at], words[at + 1]) for at in range(0, len(words), WORDS_PER_CALL)]
        return sorted(RunningCall(word - 1, since_ns) for word, since_ns in found if word and since_ns)

    @property
    def has_waiting(self) -> bool:
        """Whether a record that was decoded waits for its turn, from any process."""
        words = self._words
        return any(words[at] and not words[at + 1] for at in range(0, len(words), WORDS_PER_CALL))

    def release(self) -> None:
        """Give the memory back."""
        self._words.release()


class AckSlot:
    """The span of acked offsets that is open: a single one at a time.

    Most acks are of one record after another. Each of them is one store here instead of a frame, and those of
    a worker that is killed are there to be read.
    """

    def __init__(self, words: memoryview) -> None:
        self._words = words
        # As this process has written them: no other one does.
        self._lane_id = self._end = _NONE

    def add(self, lane_id: int, offset: int) -> bool:
        """Add an offset, if it follows what is there, or nothing is. Return whether it was added."""
        words = self._words
        if offset == self._end and lane_id == self._lane_id:
            pass
        elif self._end != _NONE:
            return False
        else:
            # Who reads the same key before and after has read what belongs to it: see `read`.
            words[_FIRST] = offset
            words[_KEY] = ((words[_KEY] >> _ID_BITS) + 1 << _ID_BITS | lane_id) % 2**64
            self._lane_id = lane_id
        words[_END] = self._end = offset + 1
        return True

    def clear(self) -> None:
        """Drop what is there: its frame is on its way."""
        self._words[_END], self._end = 0, _NONE

    def release(self) -> None:
        """Give the memory back."""
        self._words.release()

    def read(self) -> AckedSpan | None:
        """Return what is there, from any process; None where nothing is, or where it never stands still."""
        words = self._words
        # The worker may begin another span between two of these reads: then the key has changed.
        for _ in range(_MAX_READS):
            key, first, end = words[_KEY], words[_FIRST], words[_END]
            if not end:
                return None
            if words[_KEY] == key:
                return AckedSpan(key & _ID_MASK, first, end, key >> _ID_BITS)
        return None

"""Memory that a processor shares with a worker that runs several records at once: which, and since when."""

import mmap
import os
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from headrace.runtime.processes import die
from headrace.runtime.wire import shared_memory
from headrace.runtime.wire.lease import Lease

WORDS_PER_CALL = 2


class RunningCall(NamedTuple):
    """Record `seq` runs; `since_ns` is by time.monotonic_ns."""

    seq: int
    since_ns: int


class CallSlots:
    """A place for each record that may run. Written by the worker's main thread alone, by single stores.

    A record keeps its place until what became of it is on its way: so when a worker dies, what runs by its
    place and has no outcome had started, and there are never more of those than places. One that has been
    decoded and waits for its turn has a place too, at time 0: it hasn't started.
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
        """Record `seq` starts now."""
        place = self._place_of[seq] = self._free.pop()
        at = WORDS_PER_CALL * place
        # The time first: a reader may see a new time with an old record, never an old time with a new one.
        self._words[at + 1] = now_ns
        self._words[at] = seq + 1

    def wait(self, seq: int) -> None:
        """It has been decoded, and doesn't run before `begin`."""
        self._words[WORDS_PER_CALL * self._place_of[seq] + 1] = 0

    def begin(self, seq: int, now_ns: int) -> None:
        """Its turn has come."""
        self._words[WORDS_PER_CALL * self._place_of[seq] + 1] = now_ns

    def leave_all(self) -> None:
        """Nothing runs."""
        for seq in list(self._place_of):
            self.leave(seq)

    def leave(self, seq: int) -> None:
        """What became of it is on its way. Idempotent."""
        if (place := self._place_of.pop(seq, None)) is not None:
            self._words[WORDS_PER_CALL * place] = 0
            self._free.append(place)

    def read(self) -> list[RunningCall]:
        """What runs, from any process, by seq."""
        words = self._words
        found = [(words[at], words[at + 1]) for at in range(0, len(words), WORDS_PER_CALL)]
        return sorted(RunningCall(word - 1, since_ns) for word, since_ns in found if word and since_ns)

    @property
    def has_waiting(self) -> bool:
        """Whether one that was decoded waits for its turn, from any process."""
        words = self._words
        return any(words[at] and not words[at + 1] for at in range(0, len(words), WORDS_PER_CALL))

    def release(self) -> None:
        """Give the memory back."""
        self._words.release()


ACK_WORDS = 3


_KEY, _FIRST, _END = range(ACK_WORDS)


_ID_BITS = 32


_ID_MASK = 2**_ID_BITS - 1


_MAX_READS = 1000


_NONE = -1


class AckedSpan(NamedTuple):
    """The offsets `[first, end)` of one lane were acked. Of all spans of a worker it is the `number`th.

    So one that has grown is told from one of the same offsets, which have come again and were acked again.
    """

    lane_id: int
    first: int
    end: int
    number: int


class AckSlot:
    """One span at a time. Written by the worker's main thread alone, with single aligned stores."""

    def __init__(self, words: memoryview) -> None:
        self._words = words
        self._lane_id = self._end = _NONE  # as this process has written them

    def add(self, lane_id: int, offset: int) -> bool:
        """Whether there was place for it: it follows what is there, or nothing is."""
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
        """What was there is on its way."""
        self._words[_END], self._end = 0, _NONE

    def release(self) -> None:
        """Give the memory back."""
        self._words.release()

    def read(self) -> AckedSpan | None:
        """What is there, from any process; None where nothing is, or what never stands still."""
        words = self._words
        for _ in range(_MAX_READS):
            key, first, end = words[_KEY], words[_FIRST], words[_END]
            if not end:
                return None
            if words[_KEY] == key:
                return AckedSpan(key & _ID_MASK, first, end, key >> _ID_BITS)
        return None


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

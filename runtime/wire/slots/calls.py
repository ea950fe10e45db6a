"""Memory that a processor shares with a worker that runs several records at once: which, and since when."""

from typing import NamedTuple

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

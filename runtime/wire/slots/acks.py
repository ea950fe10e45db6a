"""Words of memory that a processor shares with a worker: what the worker has acked and not sent yet.

Acks of one record after another are most of all acks. Here each of them is one store instead of a frame, and
a killed worker's are there to be read.
"""

from typing import NamedTuple

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

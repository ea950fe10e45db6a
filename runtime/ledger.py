"""The offset ledger of one partition in one assignment: what is open, what is settled, what may be committed.

Pure on purpose: no I/O, no clock, no asyncio, so that it can be tested to exhaustion.
"""

from bisect import bisect_left, bisect_right


class Ledger:
    """An interval set over offsets.

    Below `committable` everything is settled; from `position` on nothing has been fetched; between them, what
    is in no settled run is open. Offsets are Kafka's: int, >= 0. Spans are half-open, `[first, end)`.
    """

    __slots__ = ("_committable", "_ends", "_position", "_settled_count", "_starts")

    def __init__(self, start: int) -> None:
        """Begin at `start`, the first offset that this assignment is to handle."""
        self._committable = start
        self._position = start
        # Settled runs above committable: disjoint, not adjacent, ascending; run i is [_starts[i], _ends[i]).
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._settled_count = 0

    @property
    def committable(self) -> int:
        """The lowest offset that isn't settled: what a commit may say. Never moves back."""
        return self._committable

    @property
    def position(self) -> int:
        """The next offset to fetch."""
        return self._position

    @property
    def open_count(self) -> int:
        """How many offsets are open."""
        return self._position - self._committable - self._settled_count

    def settled_runs(self) -> list[tuple[int, int]]:
        """The settled runs above `committable`, ascending: acked out of order."""
        return list(zip(self._starts, self._ends, strict=True))

    def is_open(self, offset: int) -> bool:
        """Whether `offset` was fetched in this assignment and is not settled."""
        if not self._committable <= offset < self._position:
            return False
        run = bisect_right(self._starts, offset) - 1
        return run < 0 or offset >= self._ends[run]

    def add(self, first: int, end: int) -> None:
        """Open `[first, end)`, fetched now. Offsets skipped since `position` hold no record and settle.

        Raises ValueError where the span is empty or was fetched before.
        """
        if not self._position <= first < end:
            raise ValueError(f"[{first}, {end}) does not follow position {self._position}")
        self.advance(first)
        self._position = end

    def advance(self, position: int) -> None:
        """The fetch moved to `position` and found no record on the way (control records, compaction)."""
        gap = self._position
        if position > gap:
            self._position = position
            self.settle(gap, position)

    def settle(self, first: int, end: int) -> int:
        """Settle what is open of `[first, end)`; return how many offsets that were.

        Any span below `position` may be named, in any order, more than once.
        Raises ValueError past `position`: nobody can have handled what was not fetched.
        """
        if end > self._position:
            raise ValueError(f"[{first}, {end}) is past position {self._position}")
        before = self.open_count
        if end <= self._committable or first >= end:
            return 0
        if first <= self._committable:
            self._raise_committable(end)
        else:
            self._insert(first, end)
        return before - self.open_count

    def _raise_committable(self, end: int) -> None:
        """Everything below `end` is settled; runs that it reaches are absorbed."""
        absorbed = bisect_right(self._starts, end)
        if absorbed:
            end = max(end, self._ends[absorbed - 1])
            self._forget(0, absorbed)
        self._committable = end

    def _insert(self, first: int, end: int) -> None:
        """Merge `[first, end)` with the runs that it overlaps or touches."""
        low = bisect_left(self._ends, first)
        high = bisect_right(self._starts, end)
        if low < high:
            first = min(first, self._starts[low])
            end = max(end, self._ends[high - 1])
            self._forget(low, high)
        self._starts.insert(low, first)
        self._ends.insert(low, end)
        self._settled_count += end - first

    def _forget(self, low: int, high: int) -> None:
        self._settled_count -= sum(self._ends[low:high]) - sum(self._starts[low:high])
        del self._starts[low:high]
        del self._ends[low:high]

"""A set of integers, kept as runs: small however many numbers it holds, as long as they lie together."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class IntervalSet:
    """Half-open runs `[first, end)`: disjoint, not adjacent, ascending.

    Each method costs a binary search, the runs that it removes, and one shift of what lies above them.
    """

    __slots__ = ("_ends", "_starts", "count")

    def __init__(self) -> None:
        self.count = 0  # how many numbers it holds; written here only
        # Run i is [_starts[i], _ends[i]): two lists, because bisect searches lists of numbers fastest.
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __contains__(self, number: int) -> bool:
        run = bisect_right(self._starts, number) - 1
        return run >= 0 and number < self._ends[run]

    def to_list(self) -> list[tuple[int, int]]:
        """The runs, ascending."""
        return list(zip(self._starts, self._ends, strict=True))

    def gaps(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """What of `[first, end)` it doesn't hold, ascending."""
        run = bisect_right(self._ends, first)
        while first < end:
            next_start = self._starts[run] if run < len(self._starts) else end
            if first < min(next_start, end):
                yield first, min(next_start, end)
            first = self._ends[run] if run < len(self._ends) else end
            run += 1

    def insert(self, first: int, end: int) -> int:
        """Add `[first, end)`, merged with the runs that it overlaps or touches; return how many were new."""
        if first >= end:
            return 0
        before = self.count
        low = bisect_left(self._ends, first)
        high = bisect_right(self._starts, end)
        if low < high:
            first = min(first, self._starts[low])
            end = max(end, self._ends[high - 1])
            self._remove(low, high)
        self._starts.insert(low, first)
        self._ends.insert(low, end)
        self.count += end - first
        return self.count - before

    def take_below(self, bound: int) -> list[tuple[int, int]]:
        """Remove what lies below `bound` and return it as runs; a run across it is cut there."""
        high = bisect_left(self._starts, bound)
        taken = list(zip(self._starts[:high], self._ends[:high], strict=True))
        self._remove(0, high)
        if taken and taken[-1][1] > bound:
            first, end = taken[-1]
            taken[-1] = (first, bound)
            self.insert(bound, end)
        return taken

    def take_through(self, bound: int) -> int:
        """Remove what lies below `bound` and the run that it reaches; return that run's end, else `bound`."""
        high = bisect_right(self._starts, bound)
        if high:
            bound = max(bound, self._ends[high - 1])
            self._remove(0, high)
        return bound

    def _remove(self, low: int, high: int) -> None:
        self.count -= sum(self._ends[low:high]) - sum(self._starts[low:high])
        del self._starts[low:high]
        del self._ends[low:high]

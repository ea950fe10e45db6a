"""A set of integers, kept as spans: small however many numbers it holds, as long as they lie together."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import chain

Span = tuple[int, int]
"""Offsets `[first, end)`."""
PAGE = 512  # edges at most: shifting them costs less than finding the place


class IntervalSet:
    """Half-open spans `[first, end)`: disjoint, not adjacent, ascending.

    Their edges lie in pages: first, end, first, end. So a number that bisects to an odd index is inside a
    span. Each method costs a few binary searches, the spans that it removes or returns, and the shift of a
    page.
    """

    __slots__ = ("_borders", "_pages", "count")

    def __init__(self) -> None:
        self.count = 0  # how many numbers it holds; written here only
        self._pages: list[list[int]] = [[]]  # no span lies in two
        self._borders: list[int] = []  # a lower bound of each page but the lowest

    def __bool__(self) -> bool:
        return self.count > 0

    def __contains__(self, number: int) -> bool:
        page = self._pages[bisect_right(self._borders, number)]
        return bisect_right(page, number) % 2 == 1

    @property
    def span_count(self) -> int:
        """How many spans there are."""
        return sum(map(len, self._pages)) // 2

    def to_list(self) -> list[Span]:
        """Return the spans, ascending."""
        return [span for page in self._pages for span in _pairs(page)]

    def gaps(self, first: int, end: int) -> Iterator[Span]:
        """Yield the spans of `[first, end)` that are not in the set, ascending."""
        if first >= end:
            return iter(())
        low, high = bisect_right(self._borders, first), bisect_right(self._borders, end)
        edges = [] if first in self else [first]
        for page in self._pages[low : high + 1]:
            edges += page[bisect_right(page, first) : bisect_left(page, end)]
        if len(edges) % 2:
            edges.append(end)
        return _pairs(edges)

    def insert(self, first: int, end: int) -> int:
        """Add `[first, end)`, merged with the spans that it overlaps or touches; return how many were new."""
        if first >= end:
            return 0
        at = bisect_right(self._borders, first)
        page = self._join(at, bisect_right(self._borders, end))
        low, high = bisect_left(page, first), bisect_right(page, end)
        begin = [] if low % 2 else [first]
        close = [] if high % 2 else [end]
        new = _size(begin + page[low:high] + close)  # of the gaps that it fills
        page[low:high] = begin + close
        self.count += new
        if len(page) > PAGE:  # a shift would cost more than the search
            self._split(at)
        return new

    def take_below(self, bound: int) -> list[Span]:
        """Remove what lies below `bound` and return it as spans; a span across it is cut there."""
        page = self._join(0, bisect_right(self._borders, bound))
        taken = self._take(page, bisect_left(page, bound))
        if taken and taken[-1] > bound:
            self.insert(bound, taken[-1])
            taken[-1] = bound
        return list(_pairs(taken))

    def take_through(self, bound: int) -> int:
        """Remove what lies below `bound`, and the span that it reaches; return its end, or `bound`."""
        if self.count:
            page = self._join(0, bisect_right(self._borders, bound))
            if high := bisect_right(page, bound):
                bound = max(bound, self._take(page, high)[-1])
        return bound

    def _take(self, page: list[int], high: int) -> list[int]:
        high += high % 2  # to the end of the span
        taken = page[:high]
        del page[:high]
        self.count -= _size(taken)
        return taken

    def _join(self, low: int, high: int) -> list[int]:
        if low < high:
            self._pages[low : high + 1] = [list(chain(*self._pages[low : high + 1]))]
            del self._borders[low:high]
        return self._pages[low]

    def _split(self, at: int) -> None:
        page = self._pages[at]
        half = len(page) // 4 * 2
        self._pages[at : at + 1] = page[:half], page[half:]
        self._borders.insert(at, page[half])


def _pairs(edges: list[int]) -> Iterator[Span]:
    return zip(edges[::2], edges[1::2], strict=True)


def _size(edges: list[int]) -> int:
    size = 0
    for edge in edges:  # sum(ends) - sum(firsts), in one pass: most are two
        size = edge - size
    return size

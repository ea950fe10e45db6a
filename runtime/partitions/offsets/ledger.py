"""The offset ledger of one partition in one assignment: what is open, what is settled, what may be committed.

Pure on purpose: no I/O, no clock, no asyncio, so that it can be tested to exhaustion.
"""

from collections.abc import Iterable, Iterator

from headrace.runtime.partitions.offsets.interval_set import IntervalSet, Span


class Ledger:
    """Offsets, from the lowest up: settled, then open with settled spans between, then not fetched yet.

    Below `committable` everything is settled; from `position` on nothing has been fetched; between them, what
    is in no settled span is open. Acks may come before their records: spans settled ahead lie at or above
    `position`, and move `committable` once the fetch gets there (a commit may pass them at once:
    PartitionOffsets.checkpoint). Offsets are Kafka's: int, >= 0. Spans are half-open, `[first, end)`.
    """

    __slots__ = ("_ahead", "_committable", "_position", "_settled")

    def __init__(self, start: int, settled: Iterable[Span] = ()) -> None:
        """Begin at `start`, the first offset to handle; the spans `settled` above it are settled already.

        `Ledger(committable, settled_spans())` goes on where another was, as if fetched anew from there.
        """
        self._committable = start
        self._position = start
        self._settled = IntervalSet()  # above committable, below position
        self._ahead = IntervalSet()  # from position on
        for first, end in settled:
            self.settle(first, end)

    @property
    def committable(self) -> int:
        """The lowest offset that isn't settled, or `position`.

        PartitionOffsets.checkpoint makes of it the offset that a commit says.
        """
        return self._committable

    @property
    def position(self) -> int:
        """The next offset to fetch."""
        return self._position

    @property
    def open_count(self) -> int:
        """How many offsets are open."""
        return self._position - self._committable - self._settled.count

    @property
    def has_ahead(self) -> bool:
        """Whether something is settled ahead of the fetch: then some of what `add` is given may stay settled.

        Read it before `add`, and hand out only what `is_open` after that.
        """
        return bool(self._ahead)

    @property
    def settled_span_count(self) -> int:
        """How many spans are settled above `committable`, below `position`."""
        return self._settled.span_count

    def settled_spans(self) -> list[Span]:
        """Return all settled spans from `committable` on, also ahead; disjoint, not adjacent, ascending."""
        spans, ahead = self._settled.to_list(), self._ahead.to_list()
        if spans and ahead and spans[-1][1] == ahead[0][0]:  # one span, across position
            spans[-1:] = [(spans[-1][0], ahead.pop(0)[1])]
        return spans + ahead

    def is_open(self, offset: int) -> bool:
        """Whether `offset` was fetched in this assignment and is not settled."""
        return self._committable <= offset < self._position and offset not in self._settled

    def open_spans(self, first: int, end: int) -> Iterator[Span]:
        """Yield the open spans of `[first, end)`: fetched in this assignment, not settled; ascending."""
        return self._settled.gaps(max(first, self._committable), min(end, self._position))

    def unsettled_spans(self, first: int, end: int) -> Iterator[Span]:
        """Yield the spans of `[first, end)` that are not settled, fetched or not, ascending."""
        for gap in self._settled.gaps(max(first, self._committable), end):
            yield from self._ahead.gaps(*gap)

    def is_settled(self, offset: int) -> bool:
        """Whether `offset` is settled, fetched or not."""
        return offset < self._committable or offset in self._settled or offset in self._ahead

    def add(self, first: int, end: int) -> None:
        """Open the offsets of `[first, end)`, fetched now, that aren't settled ahead.

        Offsets skipped since `position` hold no record and settle.
        Raises ValueError if the span is empty or was fetched before.
        """
        if not self._position <= first < end:
            raise ValueError(f"[{first}, {end}) does not follow position {self._position}")
        self.advance(first)
        self._position = end
        if self._ahead:
            for span in self._ahead.take_below(end):
                self._settle_fetched(*span)

    def advance(self, position: int) -> None:
        """Settle all offsets below `position`, as a fetch found no record there (control, compaction)."""
        gap = self._position
        if position > gap:
            self._position = position
            self._ahead.take_below(position)  # settled with the gap, whether it was before or not
            self._settle_fetched(gap, position)

    def settle(self, first: int, end: int) -> int:
        """Settle `[first, end)`, in any order, more than once; return how many open offsets that settled.

        Any span may be named. Offsets from `position` on are kept as settled ahead, and aren't counted.
        """
        if end > self._position:
            self._ahead.insert(max(first, self._position), end)
            end = self._position
        return self._settle_fetched(first, end)

    def reopen(self, first: int, end: int) -> None:
        """Make `[first, end)` unsettled again, fetched or ahead: `committable` may move back."""
        spans = [(min(first, self._committable), self._committable)]
        spans += self._settled.to_list() + self._ahead.to_list()
        self._committable = min(first, self._committable)
        self._settled, self._ahead = IntervalSet(), IntervalSet()
        for low, high in spans:
            for part in ((low, min(high, first)), (max(low, end), high)):
                if part[0] < part[1]:
                    self.settle(*part)

    def _settle_fetched(self, first: int, end: int) -> int:
        if first > self._committable:  # something below is open still: the span stands by itself
            return self._settled.insert(first, end)
        if end <= self._committable:
            return 0
        before = self._committable + self._settled.count
        self._committable = self._settled.take_through(end)
        return self._committable + self._settled.count - before

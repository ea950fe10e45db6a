"""Records that were handled and wait for an ack: open in the ledger, and in no buffer."""

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet

from headrace.runtime.partitions.offsets.interval_set import Span
from headrace.runtime.partitions.offsets.ledger import Ledger

NOBODY = -1
"""The worker index of a record that no worker is to ack: no death changes anything."""


class AwaitingAck(AbstractSet[int]):
    """A set of first offsets, with the worker that has handled each, the time, and where a range ends.

    Orphans are records that nobody is to ack any more: their worker has died, or they have failed since.
    """

    __slots__ = ("_ends", "_handled", "_seen", "has_orphans")

    def __init__(self) -> None:
        self.has_orphans = False
        # In the order in which they were handled: worker index (None: an orphan) and time. Records added
        # between two calls of `look` share one list; the next call writes the time into it. So adding reads
        # no clock.
        self._handled: dict[int, tuple[int | None, list[float]]] = {}
        self._seen: list[float] = []
        self._ends: dict[int, int] = {}  # of ranges

    def __contains__(self, first: object) -> bool:
        return first in self._handled

    def __iter__(self) -> Iterator[int]:
        return iter(self._handled)

    def __len__(self) -> int:
        return len(self._handled)

    def __eq__(self, other: object) -> bool:
        return self._handled.keys() == other

    __hash__ = None  # type: ignore[assignment]  # it changes

    def ranges(self) -> Collection[Span]:
        """Return the spans of the ranges among them."""
        return [span for span in self._ends.items() if span[0] in self._handled]

    def end_of(self, first: int) -> int:
        """Return the end of the record or range that begins at `first`, as it was when last handled."""
        return self._ends.get(first, first + 1)

    def add(self, firsts: Iterable[int], worker_index: int | None) -> None:
        """Add records that this worker has handled."""
        self._handled |= dict.fromkeys(firsts, (worker_index, self._seen))

    def look(self, now: float) -> float:
        """Return how long the record that was handled first has waited, in seconds.

        For records added since the last call, the time runs from `now` on.
        """
        if not self._handled:
            return 0.0
        self._seen.append(now)
        self._seen = []
        _, (seen_at,) = next(iter(self._handled.values()))
        return now - seen_at

    def add_ends(self, ranges: Iterable[Span]) -> None:
        """Note where the ranges end that were just added."""
        self._ends |= ranges
        self._ends = {first: end for first, end in self._ends.items() if first in self._handled}

    def forget(self, first: int, end: int) -> None:
        """Remove the records in `[first, end)`, which are settled."""
        # By the shorter way: an ack of one record must not cost the walk through all that wait.
        if end - first < len(self._handled):
            for offset in range(first, end):
                self._handled.pop(offset, None)
        else:
            self._handled = {at: of for at, of in self._handled.items() if not first <= at < end}

    def orphan(self, worker_index: int) -> int:
        """Make orphans of the records that a dead worker had handled; return how many there are."""
        orphans = {at: (None, of[1]) for at, of in self._handled.items() if of[0] == worker_index}
        self._handled |= orphans
        self.has_orphans |= bool(orphans)
        return len(orphans)

    def abandon(self, first: int) -> bool:
        """Make an orphan of one record, which nobody is to ack any more.

        Return whether it waits for an ack.
        """
        if first not in self._handled:
            return False
        self._handled[first] = (None, self._handled[first][1])
        self.has_orphans = True
        return True

    def is_orphan(self, first: int) -> bool:
        """Whether that record is to come again."""
        return first in self._handled and self._handled[first][0] is None

    def drop_orphans(self) -> None:
        """Remove all orphans, which are fetched again."""
        self._handled = {first: of for first, of in self._handled.items() if of[0] is not None}
        self.has_orphans = False

    def settled_in(self, ledger: Ledger) -> Ledger:
        """Return a copy of `ledger` in which these records are settled."""
        found = Ledger(ledger.committable, ledger.settled_spans())
        if ledger.committable < ledger.position:
            found.add(ledger.committable, ledger.position)
        for first in self._handled:
            found.settle(first, self.end_of(first))
        return found

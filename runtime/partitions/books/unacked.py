"""What was handled and waits for an ack: it is open in the ledger, and waits nowhere to be handed out."""

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet

from headrace.runtime.partitions.books.ledger import Ledger

Span = tuple[int, int]
NOBODY = -1
"""In place of the worker that is to ack a record: no death changes anything."""


class Unacked(AbstractSet[int]):
    """A set of first offsets. Of each it knows the worker that has handled it, and where a range ends.

    Orphans are those whose worker has died: nobody is left to ack them.
    """

    __slots__ = ("_ends", "_workers", "has_orphans")

    def __init__(self) -> None:
        self.has_orphans = False
        self._workers: dict[int, int | None] = {}
        self._ends: dict[int, int] = {}  # of ranges

    def __contains__(self, first: object) -> bool:
        return first in self._workers

    def __iter__(self) -> Iterator[int]:
        return iter(self._workers)

    def __len__(self) -> int:
        return len(self._workers)

    def __eq__(self, other: object) -> bool:
        return self._workers.keys() == other

    __hash__ = None  # type: ignore[assignment]  # it changes

    def ranges(self) -> Collection[Span]:
        """Those that are ranges."""
        return self._ends.items()

    def end_of(self, first: int) -> int:
        """Of what begins there."""
        return self._ends.get(first, first + 1)

    def add(self, firsts: Iterable[int], worker_index: int | None) -> None:
        """That worker has handled these."""
        self._workers |= dict.fromkeys(firsts, worker_index)

    def add_ends(self, ranges: Iterable[Span]) -> None:
        """Where those of these end that were added."""
        self._ends |= ranges
        self._ends = {first: end for first, end in self._ends.items() if first in self._workers}

    def forget(self, first: int, end: int) -> None:
        """Those in `[first, end)` are settled."""
        if end - first < len(self._workers):
            for offset in range(first, end):
                self._workers.pop(offset, None)
        else:
            self._workers = {at: worker for at, worker in self._workers.items() if not first <= at < end}

    def orphan(self, worker_index: int) -> int:
        """That worker has died; how many orphans it leaves."""
        orphans = [first for first, worker in self._workers.items() if worker == worker_index]
        self._workers |= dict.fromkeys(orphans)
        self.has_orphans |= bool(orphans)
        return len(orphans)

    def abandon(self, first: int) -> bool:
        """Nobody is to ack this one any more; whether it waits for that."""
        if first not in self._workers:
            return False
        self._workers[first] = None
        self.has_orphans = True
        return True

    def is_orphan(self, first: int) -> bool:
        """It is to come again."""
        return first in self._workers and self._workers[first] is None

    def drop_orphans(self) -> None:
        """They come again."""
        self._workers = {first: worker for first, worker in self._workers.items() if worker is not None}
        self.has_orphans = False

    def settled_in(self, ledger: Ledger) -> Ledger:
        """A ledger in which they are settled, and all else is as in this one."""
        found = Ledger(ledger.committable, ledger.settled_spans())
        if ledger.committable < ledger.position:
            found.add(ledger.committable, ledger.position)
        for first in self._workers:
            found.settle(first, self.end_of(first))
        return found

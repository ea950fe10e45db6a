"""What was handled and waits for an ack: it is open in the ledger, and waits nowhere to be handed out."""

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet

from headrace.runtime.partitions.offsets.ledger import Ledger

Span = tuple[int, int]
NOBODY = -1
"""In place of the worker that is to ack a record: no death changes anything."""


class AwaitingAck(AbstractSet[int]):
    """A set of first offsets. Of each it knows which worker has handled it, when, and where a range ends.

    Orphans are those whose worker has died: nobody is left to ack them.
    """

    __slots__ = ("_ends", "_handled", "_seen", "has_orphans")

    def __init__(self) -> None:
        self.has_orphans = False
        # As they were handled. When is one list for all that came between two looks: the second one fills it.
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
        """Those that are ranges."""
        return [span for span in self._ends.items() if span[0] in self._handled]

    def end_of(self, first: int) -> int:
        """Of what begins there, or began there when it was handled last."""
        return self._ends.get(first, first + 1)

    def add(self, firsts: Iterable[int], worker_index: int | None) -> None:
        """That worker has handled these."""
        self._handled |= dict.fromkeys(firsts, (worker_index, self._seen))

    def look(self, now: float) -> float:
        """How long what was handled first has waited; what came since the last look, from `now` on."""
        if not self._handled:
            return 0.0
        self._seen.append(now)
        self._seen = []
        _, (seen_at,) = next(iter(self._handled.values()))
        return now - seen_at

    def add_ends(self, ranges: Iterable[Span]) -> None:
        """Where those of these end that were added."""
        self._ends |= ranges
        self._ends = {first: end for first, end in self._ends.items() if first in self._handled}

    def forget(self, first: int, end: int) -> None:
        """Those in `[first, end)` are settled."""
        if end - first < len(self._handled):
            for offset in range(first, end):
                self._handled.pop(offset, None)
        else:
            self._handled = {at: of for at, of in self._handled.items() if not first <= at < end}

    def orphan(self, worker_index: int) -> int:
        """That worker has died; how many orphans it leaves."""
        orphans = {at: (None, of[1]) for at, of in self._handled.items() if of[0] == worker_index}
        self._handled |= orphans
        self.has_orphans |= bool(orphans)
        return len(orphans)

    def abandon(self, first: int) -> bool:
        """Nobody is to ack this one any more; whether it waits for that."""
        if first not in self._handled:
            return False
        self._handled[first] = (None, self._handled[first][1])
        self.has_orphans = True
        return True

    def is_orphan(self, first: int) -> bool:
        """It is to come again."""
        return first in self._handled and self._handled[first][0] is None

    def drop_orphans(self) -> None:
        """They come again."""
        self._handled = {first: of for first, of in self._handled.items() if of[0] is not None}
        self.has_orphans = False

    def settled_in(self, ledger: Ledger) -> Ledger:
        """A ledger in which they are settled, and all else is as in this one."""
        found = Ledger(ledger.committable, ledger.settled_spans())
        if ledger.committable < ledger.position:
            found.add(ledger.committable, ledger.position)
        for first in self._handled:
            found.settle(first, self.end_of(first))
        return found

"""What a commit says of one partition: its offset, and what the next owner has to know besides."""

from collections.abc import Iterator
from dataclasses import dataclass

Span = tuple[int, int]
"""Offsets `[first, end)`."""
MOST_PLANNED = 256
"""Batches of one partition that a commit tells of, at most."""


@dataclass(frozen=True, slots=True)
class PlannedBatches:
    """Offsets `[first, end)` of one partition were handed out as one batch, or were about to be.

    Whoever delivers them again does so with the same boundaries, and ends `session` first: the Spark session
    (a UUID) in which they may still be running; empty where the function has none. `behind`: more batches
    `[first, end)` of which the same is true, ascending.
    """

    first: int
    end: int
    session: str = ""
    behind: tuple[Span, ...] = ()

    @classmethod
    def of(cls, batches: tuple[Span, ...], session: str = "") -> "PlannedBatches | None":
        """Of these, ascending; None where there are none."""
        return cls(*batches[0], session, batches[1:]) if batches else None

    @property
    def batches(self) -> tuple[Span, ...]:
        """All of them."""
        return ((self.first, self.end), *self.behind)

    @property
    def last_end(self) -> int:
        """Where the last one ends."""
        return self.behind[-1][1] if self.behind else self.end

    @property
    def count(self) -> int:
        """Offsets of the longest."""
        return max(end - first for first, end in self.batches)

    def __contains__(self, offset: int) -> bool:
        """Whether the record at `offset` belongs to the first one."""
        return self.first <= offset < self.end

    def batch_at(self, offset: int) -> Span | None:
        """The batch that the record at `offset` belongs to."""
        return next((it for it in self._batches() if it[0] <= offset < it[1]), None)

    def within(self, end: int) -> "PlannedBatches | None":
        """Those that lie below `end`."""
        return PlannedBatches.of(tuple(it for it in self.batches if it[1] <= end), self.session)

    def above(self, offset: int) -> "PlannedBatches | None":
        """Those that don't end before `offset`, or there."""
        if offset < self.end:
            return self
        return PlannedBatches.of(tuple(it for it in self.behind if offset < it[1]), self.session)

    def _batches(self) -> Iterator[Span]:
        yield self.first, self.end
        yield from self.behind


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a partition that survives its owner.

    `offset`: the first one that isn't settled. `attempts`: (first, end, failed deliveries of each) of records
    that are to be delivered again, or of one range of them, ascending. `acked`: settled spans `[first, end)`
    above `offset`, ascending.
    """

    offset: int
    attempts: tuple[tuple[int, int, int], ...] = ()
    plan: PlannedBatches | None = None
    acked: tuple[Span, ...] = ()

    @property
    def is_bare(self) -> bool:
        """It says nothing but the offset."""
        return not (self.attempts or self.plan or self.acked)

    def within(self, end: int) -> "Checkpoint":
        """What of it may be so, where the log ends at `end`: nobody has handled what isn't there."""
        plan = self.plan.within(end) if self.plan is not None else None
        attempts = tuple(span for span in self.attempts if span[1] <= end)
        return Checkpoint(self.offset, attempts, plan, tuple(span for span in self.acked if span[1] <= end))

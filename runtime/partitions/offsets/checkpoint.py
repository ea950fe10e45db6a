"""The checkpoint of a partition: its offset in a commit, and what the next owner has to know besides."""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.runtime.partitions.offsets.interval_set import Span

MOST_PLANNED = 256
"""Batches of one partition that a commit tells of, at most."""


@dataclass(frozen=True, slots=True)
class PlannedBatches:
    """Offsets `[first, end)` of one partition that were handed out as one batch, or were about to be.

    Whoever delivers them again does so with the same boundaries, and ends `session` first: the Spark session
    (a UUID) in which they may still be running; empty if the function has none. `behind`: more batches
    `[first, end)` of which the same is true, ascending.
    """

    first: int
    end: int
    session: str = ""
    behind: tuple[Span, ...] = ()

    @classmethod
    def of(cls, batches: tuple[Span, ...], session: str = "") -> "PlannedBatches | None":
        """Return the plan of these batches, which ascend; None if there are none."""
        return cls(*batches[0], session, batches[1:]) if batches else None

    @property
    def batches(self) -> tuple[Span, ...]:
        """The batches, ascending: one at least."""
        return ((self.first, self.end), *self.behind)

    @property
    def last_end(self) -> int:
        """The offset at which the last batch ends."""
        return self.behind[-1][1] if self.behind else self.end

    @property
    def count(self) -> int:
        """How many offsets the longest batch has."""
        return max(end - first for first, end in self.batches)

    def __contains__(self, offset: int) -> bool:
        """Whether the record at `offset` belongs to the first batch."""
        return self.first <= offset < self.end

    def batch_at(self, offset: int) -> Span | None:
        """Return the batch that the record at `offset` belongs to."""
        return next((it for it in self._each() if it[0] <= offset < it[1]), None)

    def within(self, end: int) -> "PlannedBatches | None":
        """Return the plan of the batches that lie below `end`."""
        return PlannedBatches.of(tuple(it for it in self.batches if it[1] <= end), self.session)

    def above(self, offset: int) -> "PlannedBatches | None":
        """Return the plan of the batches that end above `offset`."""
        if offset < self.end:
            return self
        return PlannedBatches.of(tuple(it for it in self.behind if offset < it[1]), self.session)

    def _each(self) -> Iterator[Span]:
        # Without the tuple that `batches` makes: nearly always the first batch is the one that is looked for.
        yield self.first, self.end
        yield from self.behind


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a partition that survives its owner.

    `offset`: the first one that isn't settled; lower while `ackWindowSize`, or a message that isn't written
    yet, holds settled records back. `attempts`: (first, end, failed deliveries of each) of records that are
    to be delivered again, or of one range of them, ascending. `acked`: settled spans `[first, end)` above
    `offset`, ascending.
    """

    offset: int
    attempts: tuple[tuple[int, int, int], ...] = ()
    plan: PlannedBatches | None = None
    acked: tuple[Span, ...] = ()

    @property
    def is_bare(self) -> bool:
        """Whether there is nothing in it but the offset."""
        return not (self.attempts or self.plan or self.acked)

    def within(self, end: int) -> "Checkpoint":
        """Return what can be true of a log that ends at `end`: nobody has handled what isn't there."""
        plan = self.plan.within(end) if self.plan is not None else None
        attempts = tuple(span for span in self.attempts if span[1] <= end)
        return Checkpoint(self.offset, attempts, plan, tuple(span for span in self.acked if span[1] <= end))

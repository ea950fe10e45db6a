"""What a commit says of one partition: its offset, and what the next owner has to know besides."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """Offsets `[first, end)` of one partition were handed out as one batch, or were about to be.

    Whoever delivers them again does so with the same boundaries, and ends `session` first: the Spark session
    (a UUID) in which they may still be running; empty where the function has none.
    """

    first: int
    end: int
    session: str = ""

    @property
    def count(self) -> int:
        """Offsets."""
        return self.end - self.first

    def __contains__(self, offset: int) -> bool:
        """Whether the record at `offset` belongs to it."""
        return self.first <= offset < self.end


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a partition that survives its owner.

    `offset`: the first one that isn't settled. `attempts`: (first, end, failed deliveries of each) of records
    that are to be delivered again, or of one range of them, ascending. `acked`: settled spans `[first, end)`
    above `offset`, ascending.
    """

    offset: int
    attempts: tuple[tuple[int, int, int], ...] = ()
    plan: Plan | None = None
    acked: tuple[tuple[int, int], ...] = ()

    @property
    def is_bare(self) -> bool:
        """It says nothing but the offset."""
        return not (self.attempts or self.plan or self.acked)

    def within(self, end: int) -> "Checkpoint":
        """What of it may be so, where the log ends at `end`: nobody has handled what isn't there."""
        plan = self.plan if self.plan is not None and self.plan.end <= end else None
        attempts = tuple(span for span in self.attempts if span[1] <= end)
        return Checkpoint(self.offset, attempts, plan, tuple(span for span in self.acked if span[1] <= end))

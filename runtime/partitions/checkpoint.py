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

    def __contains__(self, offset: int) -> bool:
        """Whether the record at `offset` belongs to it."""
        return self.first <= offset < self.end


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a partition that survives its owner.

    `offset`: the first one that isn't settled. `attempts`: (offset, failed deliveries) of records that are to
    be delivered again, ascending. `acked`: settled spans `[first, end)` above `offset`, ascending.
    """

    offset: int
    attempts: tuple[tuple[int, int], ...] = ()
    plan: Plan | None = None
    acked: tuple[tuple[int, int], ...] = ()

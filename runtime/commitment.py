"""What a commit says of one partition: its offset, and what the next owner has to know besides."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """Offsets `[first, end)` of one partition were handed out as one batch, or were about to be.

    Whoever delivers them again does so with the same boundaries.
    """

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Commitment:
    """The state of a partition that survives its owner.

    `offset`: the first one that isn't settled. `attempts`: (offset, failed deliveries) of records that are to
    be delivered again, ascending. `acked`: settled runs `[first, end)` above `offset`, ascending.
    """

    offset: int
    attempts: tuple[tuple[int, int], ...] = ()
    plan: Plan | None = None
    acked: tuple[tuple[int, int], ...] = ()

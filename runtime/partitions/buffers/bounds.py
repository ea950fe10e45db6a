"""How many records of a partition may be held."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Records of one partition, at most."""

    waiting: int
    """For a worker, decoded; where all are decoded: fetched and not settled."""
    in_flight: int
    """Handed out and not settled."""
    acked_at_once: int
    """The same while nothing waits for an ack, as each is acked before its handler returns."""

    @classmethod
    def of(cls, capacity: int) -> "Bounds":
        """The same for each."""
        return cls(capacity, capacity, capacity)

    def within(self, most: int) -> "Bounds":
        """None is more than that."""
        return Bounds(*(min(most, each) for each in (self.waiting, self.in_flight, self.acked_at_once)))

"""How many records of a partition may be held."""

from dataclasses import dataclass

MOST_OUT_OF_ORDER = 400
"""What 4,096 characters of a commit's text have place for, which is what brokers take by default."""
_HEAD_CHARS, _SPAN_CHARS = 96, 9


@dataclass(frozen=True, slots=True)
class FlowLimit:
    """Records of one partition, at most."""

    waiting: int
    """For a worker, decoded; where all are decoded: fetched and not settled."""
    in_flight: int
    """Handed out and not settled."""
    acked_at_once: int
    """The same while nothing waits for an ack, as each is acked before its handler returns."""
    out_of_order: int = MOST_OUT_OF_ORDER
    """Where records may overtake each other: spans that were settled before something below them, and records
    that may become one."""

    @classmethod
    def of(cls, capacity: int) -> "FlowLimit":
        """The same for each."""
        return cls(capacity, capacity, capacity)

    def within(self, most: int) -> "FlowLimit":
        """None is more than that."""
        waiting, in_flight = min(most, self.waiting), min(most, self.in_flight)
        return FlowLimit(waiting, in_flight, min(most, self.acked_at_once), self.out_of_order)


def most_out_of_order(max_text_chars: int) -> int:
    """How many spans a commit whose text has at most so many characters can tell of."""
    return min(MOST_OUT_OF_ORDER, max(1, (max_text_chars - _HEAD_CHARS) // _SPAN_CHARS))

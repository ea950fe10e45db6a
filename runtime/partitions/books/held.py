"""Records whose handlers have produced what isn't confirmed yet: no commit covers them. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Span = tuple[int, int]


@dataclass(slots=True, eq=False)
class Call:
    """One call of a handler, with a record or a batch: how many of its messages aren't confirmed."""

    open: int = 0
    failure: str = ""
    """Why one of them couldn't be written."""
    records: list[tuple[Any, int]] = field(default_factory=list)
    """That it is of: partition and first offset."""


@dataclass(frozen=True, slots=True)
class Held:
    """A record, or a range, up to `end`. `failures`: deliveries of it that had failed before that call."""

    call: Call
    end: int
    failures: int


class HeldRecords(dict[int, Held]):
    """By first offset. Empty nearly always, and then it costs one test."""

    def hold_back(self, committable: int, acked: Sequence[Span]) -> tuple[int, list[Span]]:
        """The offset and the acked spans that a commit may say, without what is held."""
        holes = sorted((first, held.end) for first, held in self.items())
        offset = min(committable, holes[0][0])
        return offset, list(_without([(offset, committable), *acked], holes))


def _without(spans: Iterable[Span], holes: Sequence[Span]) -> Iterator[Span]:
    """What is left of them; both ascending."""
    at = 0
    for begin, end in spans:
        first = begin
        while at < len(holes) and holes[at][0] < end:
            hole, hole_end = holes[at]
            if first < hole:
                yield first, hole
            first = max(first, hole_end)
            if hole_end > end:
                break  # it reaches into the next span
            at += 1
        if first < end:
            yield first, end

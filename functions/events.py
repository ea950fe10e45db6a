"""A batch's events as sinks see them: what a record has, and which offsets a batch spans."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Protocol


class Event(Protocol):
    """What is read of a stream trigger's event."""

    @property
    def topic(self) -> str: ...
    @property
    def shard_id(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def body(self) -> bytes | None: ...
    @property
    def header_list(self) -> Sequence[tuple[str, bytes | None]]: ...
    @property
    def timestamp(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The offsets `[first, end)` of one partition."""

    topic: str
    partition: int
    first: int
    end: int


def spans_of(events: Sequence[Event]) -> list[Span]:
    """One per partition, from its lowest offset to its highest: what is no record in between counts too."""
    return [
        Span(topic, partition, offsets[0], offsets[-1] + 1)
        for (topic, partition), offsets in _offsets(events).items()
    ]


def runs_of(events: Sequence[Event]) -> Iterator[Span]:
    """The events' own offsets and no others, as runs of neighbours."""
    for (topic, partition), offsets in _offsets(events).items():
        first = offsets[0]
        for offset, following in pairwise([*offsets, -1]):
            if following != offset + 1:
                yield Span(topic, partition, first, offset + 1)
                first = following


def _offsets(events: Sequence[Event]) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], set[int]] = {}
    for event in events:
        found.setdefault((event.topic, event.shard_id), set()).add(event.offset)
    return {key: sorted(offsets) for key, offsets in sorted(found.items())}

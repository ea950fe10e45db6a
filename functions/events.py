"""Events of a batch as sinks use them: the fields of a record, and the offsets that a batch covers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Protocol


class Event(Protocol):
    """The fields of a stream trigger's event that are read here. Nuclio's own events have them too."""

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
    def header_list(self) -> Sequence[tuple[str, bytes | None]]: ...  # pairs: a name may come more than once
    @property
    def timestamp(self) -> datetime | None: ...  # naive, in UTC


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The offsets `[first, end)` of one partition."""

    topic: str
    partition: int
    first: int
    end: int


def spans_of(events: Sequence[Event]) -> list[Span]:
    """Return one span for each partition: from its lowest offset to its highest, gaps included.

    Sorted by topic and partition. Offsets in a gap may be no records at all: compacted away, or markers of
    transactions.
    """
    # groupby joins neighbours only; runs_of yields them sorted.
    runs = groupby(runs_of(events), key=lambda run: (run.topic, run.partition))
    return [
        Span(*key, first.first, max(run.end for run in (first, *others)))
        for key, (first, *others) in ((key, list(of_one)) for key, of_one in runs)
    ]


def runs_of(events: Sequence[Event]) -> Iterator[Span]:
    """Yield the events' own offsets and no others, as spans without gaps, sorted by topic and partition.

    An event of `delivery: ranges` stands for all offsets from `first_offset` to `offset`.
    """
    for (topic, partition), spans in _spans_by_partition(events).items():
        (first, end), *others = spans
        for next_first, next_end in others:
            # Neighbours join; an event that comes twice, or lies inside a range, adds nothing.
            if next_first > end:
                yield Span(topic, partition, first, end)
                first = next_first
            end = max(end, next_end)
        yield Span(topic, partition, first, end)


def _spans_by_partition(events: Sequence[Event]) -> dict[tuple[str, int], list[tuple[int, int]]]:
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for event in events:
        first = getattr(event, "first_offset", event.offset)  # only events of ranges have it
        found.setdefault((event.topic, event.shard_id), []).append((first, event.offset + 1))
    return {key: sorted(spans) for key, spans in sorted(found.items())}

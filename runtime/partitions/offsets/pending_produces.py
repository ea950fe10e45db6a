"""Records whose handlers have produced what isn't written yet: no commit covers them without it. Pure."""

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.wire.produce import WAITING, Message
from headrace.runtime.wire.records import WireRecord

Span = tuple[int, int]


class DeliveryReport(NamedTuple):
    """Where a message is, or why it is nowhere. `offset` is -1 where the broker doesn't say."""

    partition: int = -1
    offset: int = -1
    failure: str = ""


def not_yet_written(message: Message) -> DeliveryReport:
    """Not its end: nothing can be written where it goes, and it waits there. May be said again."""
    return DeliveryReport(WAITING, message.size_bytes)


DeliveryCallback: TypeAlias = Callable[[DeliveryReport], None]
Outgoing: TypeAlias = tuple[Message, DeliveryCallback]


class HandlerCall:
    """One call of a handler, with a record or a batch, and what it has produced.

    There is one for nearly each message: what is tracked by the garbage collector costs most of its time.
    """

    __slots__ = ("failure", "open", "outgoing", "records", "waits")

    def __init__(self, open: int = 0) -> None:  # noqa: A002  # what it is
        self.open = open
        """How many of its messages are on their way."""
        self.outgoing: list[Outgoing] | tuple[()] = ()
        """Those that go with the commit of its records."""
        self.waits = False
        """Nothing can be written where one of its messages goes."""
        self.failure = ""
        """Why one of them couldn't be written."""
        self.records: Sequence[tuple[Any, int]] = ()
        """That it is of: partition and first offset."""

    @property
    def is_unwritten(self) -> bool:
        """Some of its messages are on their way, or can't be written: no commit may cover its records."""
        return self.open > 0 or bool(self.failure)

    def keep(self, message: Message, done: DeliveryCallback) -> None:
        """For the commit."""
        self.outgoing = self.outgoing or []
        self.outgoing.append((message, done))


class PendingRecord(NamedTuple):
    """A record, or a range, up to `end`. `failures`: deliveries of it that had failed before that call."""

    call: HandlerCall
    end: int
    failures: int
    record: WireRecord | None = None
    """Where records may overtake each other: only it would have to come again."""


class Unwritten(Enum):
    """Where a record is since a message of its last delivery was refused. No ack of before counts."""

    WAITS = "it is to come again"
    RUNS = "it is in its handler again"
    IS_ACKED = "and was acked, which counts once that has gone well"


class UnwrittenRecords(dict[int, Unwritten]):
    """By first offset, until a later delivery has gone well, or `onFailure` has ended them."""

    def begin(self, firsts: Iterable[int], ledger: Ledger) -> None:
        """These were unwritten when their partition left; it is back, and some may be settled meanwhile."""
        self.update({first: Unwritten.WAITS for first in firsts if not ledger.is_settled(first)})

    def within(self, first: int, end: int) -> list[int]:
        """Those in `[first, end)`."""
        if end == first + 1:
            return [first] if first in self else []
        return [offset for offset in self if first <= offset < end]

    def note_handed_out(self, first: int, end: int, before: PendingRecord | None) -> None:
        """Another delivery of it begins. `before`: what it was held for by its last one, perhaps open yet.

        A range may hold others of an assignment before, where ranges began elsewhere: they are of it now.
        """
        within = self.within(first, end)
        for offset in within:
            del self[offset]
        if within or (before is not None and before.call.is_unwritten):
            self[first] = Unwritten.RUNS

    def split(self, first: int, at: int) -> None:
        """Of a range only what lies before `at` is handed out: no ack counts for the rest, either."""
        if first in self:
            self[at] = Unwritten.WAITS

    def note_acked(self, first: int) -> bool:
        """Whether that counts, once its handler has returned."""
        if counts := self[first] is not Unwritten.WAITS:
            self[first] = Unwritten.IS_ACKED
        return counts

    def note_returned(self, first: int) -> None:
        """That delivery has failed, or was none."""
        if first in self:
            self[first] = Unwritten.WAITS

    def take_handled(self, firsts: Iterable[int]) -> list[int]:
        """Those of them that were acked in a delivery that has gone well."""
        handled = [first for first in firsts if self.get(first, Unwritten.WAITS) is not Unwritten.WAITS]
        return [first for first in handled if self.pop(first) is Unwritten.IS_ACKED]

    def forget_within(self, first: int, end: int) -> None:
        """`[first, end)` is settled."""
        for offset in self.within(first, end):
            del self[offset]


class PendingProduces(dict[int, PendingRecord]):
    """By first offset. Empty nearly always, and then it costs one test."""

    outgoing_bytes = 0
    """Of messages that go with a commit."""
    wait_count = 0
    """Of those whose call `waits`: none follows them before they are written."""

    @property
    def are_on_their_way(self) -> bool:
        """Some messages of theirs are, and no commit can write them."""
        return any(held.call.open and not held.call.failure for held in self.values())

    def unwritten(self) -> Iterator[int]:
        """Those of which messages are on their way, or can't be written."""
        return (first for first, held in self.items() if held.call.is_unwritten)

    def note_waits(self, first: int, call: HandlerCall) -> None:
        """That call of it waits."""
        if (held := self.get(first)) is not None and held.call is call:
            self.wait_count += 1

    def drop(self, first: int) -> PendingRecord | None:
        """It is held no more, and what was to go with a commit is over for all of its call."""
        held = self.pop(first, None)
        if held is not None:
            self.wait_count -= held.call.waits
            self._void(held.call)
        return held

    def let_go(self, first: int) -> None:
        """Its call is over, and the record comes again: what was to go with a commit is void.

        What is on its way is held until the record is handed out again. It may be acked before that.
        """
        if (held := self.get(first)) is not None:
            self._void(held.call)
            if not held.call.is_unwritten:
                self.drop(first)

    def _void(self, call: HandlerCall) -> None:
        if call.outgoing:  # no part of it goes without the others
            self.outgoing_bytes -= sum(message.size_bytes for message, _ in call.outgoing)
            call.outgoing = ()

    def hold_back(self, committable: int, acked: Sequence[Span]) -> tuple[int, list[Span]]:
        """The offset and the acked spans that a commit may say, without what is on its way."""
        holes = sorted((first, held.end) for first, held in self.items() if held.call.is_unwritten)
        offset = min(committable, holes[0][0]) if holes else committable
        return offset, list(spans_without([(offset, committable), *acked], holes))

    def outgoing(self, covered: Sequence[Span]) -> list[Outgoing]:
        """What has to be written with a commit that covers these spans, which ascend; by offset."""
        found = (held.call for first, held in sorted(self.items()) if _is_within(covered, first))
        return [message for call in dict.fromkeys(found) for message in call.outgoing]


def _is_within(spans: Sequence[Span], offset: int) -> bool:
    """Spans ascend."""
    at = bisect(spans, offset, key=itemgetter(0))
    return at > 0 and offset < spans[at - 1][1]


def spans_without(spans: Iterable[Span], holes: Sequence[Span]) -> Iterator[Span]:
    """The parts of `spans` that lie in none of `holes`; both ascending and disjoint."""
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

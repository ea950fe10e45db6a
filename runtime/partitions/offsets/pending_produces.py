"""Pending produces: messages of handlers that aren't written yet. No commit covers their records before."""

from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from headrace.runtime.partitions.offsets.interval_set import Span
from headrace.runtime.partitions.offsets.ledger import Ledger
from headrace.runtime.wire.produce import (
    DeliveryCallback,
    Message,
    Outgoing,
)
from headrace.runtime.wire.records import WireRecord

Rejected: TypeAlias = Literal["waits", "runs", "acked"]
"""The place of a record since a message of its last delivery was refused: it waits to be delivered again, is
in its handler again, or was acked in that delivery, which counts once that has gone well."""


class HandlerCall:
    """A call of a handler, with a record or a batch, and the messages that it has produced.

    Nearly each message makes one, so it is small: objects that the garbage collector tracks cost most here.
    """

    __slots__ = ("failure", "open", "outgoing", "records", "waits")

    def __init__(self, open: int = 0) -> None:  # noqa: A002  # messages that are open, as their brokers see it
        self.open = open
        """How many of its messages are on their way."""
        self.outgoing: list[Outgoing] | tuple[()] = ()
        """Messages that go with the commit of its records."""
        self.waits = False
        """Whether the target of one of its messages can't be written to now."""
        self.failure = ""
        """Why one of its messages couldn't be written."""
        self.records: Sequence[tuple[Any, int]] = ()
        """The records that it was called with: partition and first offset of each."""

    @property
    def is_unwritten(self) -> bool:
        """Whether messages are on their way, or can't be written: no commit may cover the call's records."""
        return self.open > 0 or bool(self.failure)

    def keep(self, message: Message, done: DeliveryCallback) -> None:
        """Keep a message for the commit."""
        self.outgoing = self.outgoing or []
        self.outgoing.append((message, done))


class PendingRecord(NamedTuple):
    """A record, or a range, up to `end`. `failures`: how many of its deliveries had failed before `call`."""

    call: HandlerCall
    end: int
    failures: int
    record: WireRecord | None = None
    """The record, if records may overtake each other: then it alone comes again, and not by a fetch."""


class PendingProduces(dict[int, PendingRecord]):
    """Records whose messages aren't written yet, by first offset: nearly always none, which costs one test.

    `rejected` has the records of which a message was refused. An ack may be of the very delivery that has
    failed by that message, and once a record is settled nobody produces for it again: so no ack counts before
    a later delivery.
    """

    __slots__ = ("outgoing_bytes", "rejected", "wait_count")

    def __init__(self, records: Iterable[tuple[int, PendingRecord]] | dict[int, PendingRecord] = ()) -> None:
        super().__init__(records)
        self.outgoing_bytes = 0
        """Bytes of messages that go with a commit."""
        self.wait_count = 0
        """How many records have a call that `waits`: none follows them before they are written."""
        self.rejected: dict[int, Rejected] = {}
        """By first offset, until a later delivery has gone well, or `onFailure` has ended them."""

    @property
    def are_on_their_way(self) -> bool:
        """Whether some messages are, and no commit can write them."""
        return any(pending.call.open and not pending.call.failure for pending in self.values())

    def unwritten(self) -> Iterator[int]:
        """Yield the records of which messages are on their way, or can't be written."""
        return (first for first, pending in self.items() if pending.call.is_unwritten)

    def note_waits(self, first: int, call: HandlerCall) -> None:
        """Note that this call of the record waits."""
        if (pending := self.get(first)) is not None and pending.call is call:
            self.wait_count += 1

    def drop(self, first: int) -> PendingRecord | None:
        """Remove a record. Messages that were to go with a commit are void, for all records of its call."""
        pending = self.pop(first, None)
        if pending is not None:
            self.wait_count -= pending.call.waits
            self._void(pending.call)
        return pending

    def let_go(self, first: int) -> None:
        """End the call of a record that comes again: its messages that were to go with a commit are void.

        While messages are on their way, the record stays until it is handed out again: it may be acked
        before.
        """
        if (pending := self.get(first)) is not None:
            self._void(pending.call)
            if not pending.call.is_unwritten:
                self.drop(first)

    def _void(self, call: HandlerCall) -> None:
        if call.outgoing:  # all messages of a call go, or none
            self.outgoing_bytes -= sum(message.size_bytes for message, _ in call.outgoing)
            call.outgoing = ()

    # ---- what a commit may say

    def hold_back(self, committable: int, acked: Sequence[Span]) -> tuple[int, list[Span]]:
        """Return the offset and the acked spans that a commit may say, without records on their way."""
        holes = sorted((first, pending.end) for first, pending in self.items() if pending.call.is_unwritten)
        offset = min(committable, holes[0][0]) if holes else committable
        return offset, list(spans_without([(offset, committable), *acked], holes))

    def outgoing(self, covered: Sequence[Span]) -> list[Outgoing]:
        """Return the messages that go with a commit that covers these ascending spans, in order of offset."""
        calls = (pending.call for first, pending in sorted(self.items()) if _is_within(covered, first))
        return [message for call in dict.fromkeys(calls) for message in call.outgoing]

    # ---- a message was refused

    def reject(self, first: int) -> None:
        """Note that a message of the record's last delivery was refused: it is to come again."""
        self.rejected[first] = "waits"

    def restore_rejected(self, firsts: Iterable[int], ledger: Ledger) -> None:
        """Take over the records that were rejected when the partition left, if they aren't settled since."""
        self.rejected.update({first: "waits" for first in firsts if not ledger.is_settled(first)})

    def on_handed_out(self, first: int, end: int) -> None:
        """Note that another delivery of a record begins: messages of an earlier one don't count any more.

        A range may hold rejected ranges of an earlier assignment, which began at other offsets: they are part
        of it now.
        """
        before, within = self.drop(first), self._rejected_within(first, end)
        for offset in within:
            del self.rejected[offset]
        if within or (before is not None and before.call.is_unwritten):
            self.rejected[first] = "runs"

    def split(self, first: int, at: int) -> None:
        """Cut a rejected range, of which the part before `at` is handed out: no ack counts for the rest."""
        if first in self.rejected:
            self.rejected[at] = "waits"

    def note_acked(self, first: int) -> bool:
        """Return whether an ack of a rejected record counts, once its handler has returned."""
        if counts := self.rejected[first] != "waits":
            self.rejected[first] = "acked"
        return counts

    def note_returned(self, first: int) -> None:
        """Note that the delivery of a record has failed, or was none."""
        if first in self.rejected:
            self.rejected[first] = "waits"

    def take_handled(self, firsts: Iterable[int]) -> list[int]:
        """Remove records that were delivered again, and went well; return those that were acked meanwhile."""
        handled = [first for first in firsts if self.rejected.get(first, "waits") != "waits"]
        return [first for first in handled if self.rejected.pop(first) == "acked"]

    def forget_rejected(self, first: int, end: int) -> None:
        """Remove rejected records in `[first, end)`, which is settled."""
        for offset in self._rejected_within(first, end):
            del self.rejected[offset]

    def _rejected_within(self, first: int, end: int) -> list[int]:
        if end == first + 1:
            return [first] if first in self.rejected else []
        return [offset for offset in self.rejected if first <= offset < end]


def _is_within(spans: Sequence[Span], offset: int) -> bool:
    """Whether one of the spans, which ascend, has that offset."""
    at = bisect(spans, offset, key=itemgetter(0))
    return at > 0 and offset < spans[at - 1][1]


def spans_without(spans: Iterable[Span], holes: Sequence[Span]) -> Iterator[Span]:
    """Yield the parts of `spans` that lie in none of `holes`; both ascending and disjoint."""
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

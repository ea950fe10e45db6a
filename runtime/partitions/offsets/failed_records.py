"""Failed records of a partition, and suspects: remembered until they are settled."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from headrace.runtime.partitions.offsets.failure_text import in_one_line


@dataclass(slots=True)
class FailedRecord:
    """A record, or a range, that failed or is a suspect.

    A kill by the runtime counts as a failure only if its KillReason blames the record (for eventTimeout, for
    memory, for a protocol violation). Suspicion counts as none.
    """

    failures: int = 0
    """Deliveries that failed; the next one is attempt `failures + 1`."""
    reason: str = "it failed before it came here"
    """The text of the last failure."""
    among: int = 1
    """How many records were delivered together when it failed last, and may be to blame."""
    batch_limit: int | None = None
    """How many may be delivered together next time; None for no limit."""
    is_refused: bool = False
    """Whether it is not to be delivered at all."""
    is_handled: bool = False
    """Whether the record went well since its last failure, and waits for an ack."""
    end: int | None = None
    """The offset after the last one of a range.

    None for a record, and if it isn't known: the next offset.
    """

    @property
    def comes_again(self) -> bool:
        """Whether the failure isn't answered yet: another delivery, or the end of the record, is to come."""
        return self.is_refused or (self.failures > 0 and not self.is_handled)

    def span_from(self, first: int) -> int:
        """Return how many offsets it has, if `first` is its first."""
        return 1 if self.end is None else self.end - first

    @property
    def reason_in_one_line(self) -> str:
        """The last failure in one line, cut if it is long."""
        return in_one_line(self.reason)


OnRestored = Callable[[int, FailedRecord], None]
"""Called with a record or a range that comes from a commit, and its first offset."""
Attempts = Sequence[tuple[int, int, int]]
"""Spans with first, end and failures, as a Checkpoint has them."""


class FailedRecords(dict[int, FailedRecord]):
    """Failed records by first offset. Empty nearly always, and then it costs one test."""

    __slots__ = ("are_ranges",)

    def __init__(self, *, are_ranges: bool = False) -> None:
        super().__init__()
        self.are_ranges = are_ranges

    @classmethod
    def from_attempts(cls, attempts: Attempts, *, are_ranges: bool) -> "FailedRecords":
        """Return the failed records that a commit tells of; of ranges, each span is one."""
        if attempts and not are_ranges:
            return FailedSpans(attempts)
        failed = cls(are_ranges=are_ranges)
        failed.update((first, FailedRecord(failures, end=end)) for first, end, failures in attempts)
        return failed

    def of(self, offset: int) -> FailedRecord | None:
        """Return the failed record at that offset; None if there is none."""
        return self.get(offset)

    def judge_all(self, judge: OnRestored) -> None:
        """Call `judge` with each record that comes from a commit."""
        for offset, failed in self.items():
            judge(offset, failed)

    def attempt(self, offset: int) -> int:
        """Return the number of the record's next delivery, from 1."""
        failed = self.of(offset)
        return 1 if failed is None else failed.failures + 1

    def batch_limit(self, offset: int) -> int | None:
        """Return in how large a batch the record may go; None for no limit."""
        failed = self.of(offset)
        return None if failed is None else failed.batch_limit

    def is_refused(self, offset: int) -> bool:
        """Whether the record must not be delivered."""
        failed = self.of(offset)
        return failed is not None and failed.is_refused

    def nearest_above(self, offset: int) -> int | None:
        """Return the lowest offset above `offset` that has failed."""
        return min(filter(offset.__lt__, self), default=None)

    def limit_run(self, first: int, limit: int, count_below: Callable[[int], int]) -> tuple[int, bool]:
        """Return how many records from `first` on may go one by one, and whether nothing may go behind them.

        A record that failed goes alone: a run has one attempt number. `count_below` counts those that
        wait below an offset.
        """
        if first in self:
            return 1, True
        nearest = self.nearest_above(first)
        return limit if nearest is None else min(limit, count_below(nearest)), False

    def note_failure(self, offset: int, reason: str, among: int, end: int | None) -> None:
        """Count one more failed delivery of a record, or of a range that ends at `end`."""
        failed = self.of(offset) or self.setdefault(offset, FailedRecord())
        failed.failures += 1
        failed.is_handled = False
        failed.reason, failed.end = reason, end
        # Any offset of a range may be to blame, so this number says by how much to halve it.
        failed.among = among if end is None else max(among, end - offset)

    def note_handled(self, offsets: Iterable[int]) -> None:
        """Note records that went well, and wait for acks. Their counts stay: they may still be nacked."""
        for offset in offsets:
            if (failed := self.of(offset)) is not None:
                failed.is_handled = True

    def to_come_below(self, end: int) -> list[tuple[int, int]]:
        """Return the spans below `end` of failed records that come again; disjoint, ascending."""
        return sorted(
            (at, at + failed.span_from(at)) for at, failed in self.items() if at < end and failed.comes_again
        )

    def note_suspect(self, offset: int, end: int | None) -> None:
        """Note a record, or a range, that may have killed its worker: next time it goes alone."""
        failed = self.of(offset) or self.setdefault(offset, FailedRecord())
        failed.end, failed.batch_limit = end, 1 if end is None else end - offset

    def refuse(self, offset: int, reason: str) -> None:
        """Have a record never delivered, whatever was known of it before."""
        self.forget([offset])  # also out of a span that a commit told of
        self[offset] = FailedRecord(reason=reason, batch_limit=1, is_refused=True)

    def split(self, first: int, at: int) -> bool:
        """Cut a failed range, of which only the part before `at` is handed out.

        Return whether there was one to cut: its rest stays a failed range.
        """
        failed = self.get(first)
        if failed is None or failed.end is None or at >= failed.end:
            return False
        self[at] = replace(failed)
        failed.end = at
        return True

    def forget(self, offsets: Iterable[int]) -> None:
        """Remove records that are settled, or went well."""
        for offset in offsets:
            self.pop(offset, None)

    def forget_within(self, first: int, end: int) -> None:
        """Remove the failed records in `[first, end)`, which is settled, fetched or not."""
        for offset in [failed for failed in self if first <= failed < end]:
            del self[offset]

    def forget_below(self, offset: int) -> None:
        """Remove the failed records below `offset`: settled without an outcome, as the log lacks them now."""
        if self:
            self.forget_within(0, offset)

    def attempts(self, offset: int) -> tuple[tuple[int, int, int], ...]:
        """Return what a commit of `offset` carries: first, end and failures of each span, ascending."""
        spans: list[tuple[int, int, int]] = []
        for first, end, failures in sorted(self._spans()):
            if first < offset or not failures:
                continue
            # Records that follow each other with as many failures are one span; a range stays one.
            is_next = bool(spans) and spans[-1][1:] == (first, failures) and not self.are_ranges
            spans.append((spans.pop()[0] if is_next else first, end, failures))
        return tuple(spans)

    def _spans(self) -> list[tuple[int, int, int]]:
        return [(at, at + failed.span_from(at), failed.failures) for at, failed in self.items()]


class FailedSpans(FailedRecords):
    """Failed records of which a commit has told: kept as spans until one of their records is asked for.

    A few characters may stand for millions, and whoever wrote them needn't have been one of ours.
    """

    __slots__ = ("_judge", "_told")

    def __init__(self, told: Attempts) -> None:
        super().__init__()
        self._told = list(told)
        self._judge: OnRestored | None = None

    def __bool__(self) -> bool:
        return len(self) > 0 or bool(self._told)

    def __contains__(self, offset: object) -> bool:
        # By `of`, so that whatever is known to have failed has an entry of its own.
        return isinstance(offset, int) and self.of(offset) is not None

    def of(self, offset: int) -> FailedRecord | None:
        """Return the failed record at that offset, cut out of its span; None if there is none."""
        at = bisect_right(self._told, offset, key=itemgetter(0)) - 1
        if at >= 0 and offset < self._told[at][1]:
            # Cut out, as the outcome of this record says nothing of the others in the span.
            failed = self[offset] = FailedRecord(self._told[at][2])
            self._told[at : at + 1] = _without(self._told[at], offset, offset + 1)
            if self._judge is not None:
                self._judge(offset, failed)
        return self.get(offset)

    def judge_all(self, judge: OnRestored) -> None:
        """Call `judge` with each record that has an entry, and later with each that is cut out of a span."""
        self._judge = judge
        super().judge_all(judge)

    def nearest_above(self, offset: int) -> int | None:
        """Return the lowest offset above `offset` that has failed, in a span or by itself."""
        known = super().nearest_above(offset)
        told = next((max(first, offset + 1) for first, end, _ in self._told if end > offset + 1), None)
        return min((it for it in (known, told) if it is not None), default=None)

    def forget(self, offsets: Iterable[int]) -> None:
        """Remove records that are settled, or went well, and cut them out of the spans."""
        super().forget(offset for offset in offsets if self.of(offset) is not None)

    def forget_within(self, first: int, end: int) -> None:
        """Remove the failed records in `[first, end)`, also out of the spans."""
        self._told = [part for span in self._told for part in _without(span, first, end)]
        super().forget_within(first, end)

    def to_come_below(self, end: int) -> list[tuple[int, int]]:
        """Return the spans below `end` that come again: all that a commit told of.

        Whether records of its spans were handled since is not known.
        """
        told = [(first, stop) for first, stop, _ in self._told if first < end]
        return sorted(super().to_come_below(end) + told)

    def _spans(self) -> list[tuple[int, int, int]]:
        return super()._spans() + self._told


def _without(span: tuple[int, int, int], first: int, end: int) -> list[tuple[int, int, int]]:
    """Return the parts of a span before and behind `[first, end)`."""
    parts = (span[0], min(span[1], first)), (max(span[0], end), span[1])
    return [(*part, span[2]) for part in parts if part[0] < part[1]]

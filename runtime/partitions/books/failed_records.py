"""Records that failed, or may be to blame: what a partition remembers of them until they are settled."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headrace.runtime.partitions.books.reason import in_one_line


@dataclass(slots=True)
class FailedRecord:
    """One record, or a range. Attempts that its worker was killed in by the runtime do not count."""

    failures: int = 0
    """Deliveries that failed; the next one is attempt `failures + 1`."""
    reason: str = "it failed before it came here"
    """Of the last failure."""
    among: int = 1
    """How many records were delivered together when it failed last, and may be to blame."""
    batch_limit: int | None = None
    """How many may be delivered together next time; None for no limit."""
    is_refused: bool = False
    """It is not to be delivered at all."""
    end: int | None = None
    """Of a range: the offset after its last. Where it isn't known, and for a record: the next offset."""

    def span_from(self, first: int) -> int:
        """How many offsets it is, where `first` is its first."""
        return 1 if self.end is None else self.end - first

    @property
    def reason_in_one_line(self) -> str:
        """Cut where it is long."""
        return in_one_line(self.reason)


class FailedRecords(dict[int, FailedRecord]):
    """By offset. Empty nearly always, and then it costs one test."""

    @classmethod
    def from_attempts(cls, attempts: Sequence[tuple[int, int]], *, are_ranges: bool) -> "FailedRecords":
        """As `attempts` has said it. Of ranges it says the ends too: as offsets with no failures."""
        failed = cls({offset: FailedRecord(failures) for offset, failures in attempts})
        if are_ranges:
            for first, end in pairwise(failed):
                failed[first].end = end
            failed.forget([offset for offset, failures in attempts if not failures])
        return failed

    def attempt(self, offset: int) -> int:
        """The number of the record's next delivery, from 1."""
        failed = self.get(offset)
        return 1 if failed is None else failed.failures + 1

    def batch_limit(self, offset: int) -> int | None:
        """In how large a batch it may go; None for no limit."""
        failed = self.get(offset)
        return None if failed is None else failed.batch_limit

    def is_refused(self, offset: int) -> bool:
        """Whether it must not be delivered."""
        failed = self.get(offset)
        return failed is not None and failed.is_refused

    def nearest_above(self, offset: int) -> int | None:
        """The lowest one above `offset`."""
        return min(filter(offset.__lt__, self), default=None)

    def limit_run(self, first: int, limit: int, count_below: Callable[[int], int]) -> tuple[int, bool]:
        """How many records from `first` on may go one by one, and whether nothing may go behind them.

        One that failed goes alone: a run has one attempt number. `count_below` counts those that
        wait below an offset.
        """
        if first in self:
            return 1, True
        nearest = self.nearest_above(first)
        return limit if nearest is None else min(limit, count_below(nearest)), False

    def note_failure(self, offset: int, reason: str, among: int, end: int | None) -> None:
        """One more delivery of it failed; `end` where it is a range."""
        failed = self.setdefault(offset, FailedRecord())
        failed.failures += 1
        failed.reason, failed.end = reason, end
        failed.among = among if end is None else max(among, end - offset)

    def note_suspect(self, offset: int, end: int | None) -> None:
        """It may have killed its worker: next time it goes alone."""
        failed = self.setdefault(offset, FailedRecord())
        failed.end, failed.batch_limit = end, 1 if end is None else end - offset

    def split(self, first: int, at: int) -> None:
        """Of a range only what lies before `at` is handed out: the rest stays what it was."""
        failed = self.get(first)
        if failed is not None and failed.end is not None and at < failed.end:
            self[at] = replace(failed)
            failed.end = at

    def forget(self, offsets: Iterable[int]) -> None:
        """They are settled, or went well."""
        for offset in offsets:
            self.pop(offset, None)

    def forget_below(self, offset: int) -> None:
        """They are settled without an outcome: the log has them no more."""
        if self:
            self.forget([failed for failed in self if failed < offset])

    def forget_settled(self, is_settled: Callable[[int], bool]) -> None:
        """Keep the others, which may not have been fetched yet."""
        self.forget([offset for offset in self if is_settled(offset)])

    def attempts(self) -> tuple[tuple[int, int], ...]:
        """(offset, failures), ascending: what a commit carries, the ends of ranges with it."""
        ends = dict.fromkeys((failed.end for failed in self.values() if failed.end is not None), 0)
        failures = {offset: failed.failures for offset, failed in self.items() if failed.failures}
        return tuple(sorted((ends | failures).items()))

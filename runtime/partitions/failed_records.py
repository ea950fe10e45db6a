"""Records that failed, or may be to blame: what a partition remembers of them until they are settled."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

_LINE_CHARS = 300


@dataclass(slots=True)
class FailedRecord:
    """One record, or a range. Attempts that its worker was killed in by the runtime do not count."""

    failures: int = 0
    """Deliveries that failed; the next one is attempt `failures + 1`."""
    reason: str = "it failed before it came here"
    """Of the last failure."""
    among: int = 1
    """How many records were delivered together when it failed last."""
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
        """Of a traceback its end, which names the error; of another text its beginning."""
        lines = self.reason.splitlines() or [""]
        return lines[-1 if lines[0].startswith("Traceback") else 0].rstrip(":")[:_LINE_CHARS]


class FailedRecords(dict[int, FailedRecord]):
    """By offset. Empty nearly always, and then it costs one test."""

    def attempt(self, offset: int) -> int:
        """The number of the record's next delivery, from 1."""
        trouble = self.get(offset)
        return 1 if trouble is None else trouble.failures + 1

    def batch_limit(self, offset: int) -> int | None:
        """In how large a batch it may go; None for no limit."""
        trouble = self.get(offset)
        return None if trouble is None else trouble.batch_limit

    def is_refused(self, offset: int) -> bool:
        """Whether it must not be delivered."""
        trouble = self.get(offset)
        return trouble is not None and trouble.is_refused

    def forget(self, offsets: Iterable[int]) -> None:
        """They are settled, or went well."""
        for offset in offsets:
            self.pop(offset, None)

    def forget_settled(self, is_open: Callable[[int], bool]) -> None:
        """Keep those that are open."""
        self.forget([offset for offset in self if not is_open(offset)])

    def attempts(self) -> tuple[tuple[int, int], ...]:
        """(offset, failures), ascending: what a commit carries."""
        return tuple(sorted((offset, t.failures) for offset, t in self.items() if t.failures))

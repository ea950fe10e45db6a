"""What was settled, or might have been, and is open again: nacked, too late, or its message was refused."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from headrace.runtime.partitions.key import PartitionKey


@dataclass(frozen=True, slots=True)
class _Failure:
    at: float
    process: Any
    """Who has said so; None: the broker."""
    is_sure: bool
    """Its processor took it so, whatever else was on its way."""


class TakenBack:
    """Until they are delivered again. Others of their partition go on meanwhile.

    An answer is an answer: an ack that names another record, and only spans one of these, settles it not.
    """

    def __init__(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._failures: dict[PartitionKey, dict[int, _Failure]] = defaultdict(dict)
        self.unwritten: dict[PartitionKey, set[int]] = defaultdict(set)
        """A message of these was refused, and they have not gone well since: no ack counts by itself."""
        self.perhaps_unwritten: dict[PartitionKey, set[int]] = defaultdict(set)
        """The same may be so of these: refused late, or open when they came again or their partition left."""

    def add(self, key: PartitionKey, offset: int, at: float, process: Any, *, is_sure: bool) -> None:
        """This one has failed after it was handled, or while it is. A nack changes nothing of a refusal."""
        if process is None or not self.is_refused(key, offset):
            self._failures[key][offset] = _Failure(at, process, is_sure)

    def has(self, key: PartitionKey, offset: int) -> bool:
        """Whether that may be."""
        return offset in self._failures[key]

    def is_refused(self, key: PartitionKey, offset: int) -> bool:
        """A message of its last delivery was."""
        found = self._failures[key].get(offset)
        return found is not None and found.process is None and found.is_sure

    def by(self, key: PartitionKey, offset: int) -> str:
        """Who has said that it has failed; empty where nobody has."""
        found = self._failures[key].get(offset)
        if found is None:
            return ""
        return "whose message was refused" if self.is_refused(key, offset) else "which was nacked"

    def said_by(self, process: Any) -> Iterator[tuple[PartitionKey, int]]:
        """Those that it has nacked. Where it dies they come again at once."""
        for key, failures in self._failures.items():
            for offset, failure in failures.items():
                if failure.process is process:
                    yield key, offset

    def is_sure(self, key: PartitionKey, offset: int) -> bool:
        """Whether that is so."""
        found = self._failures[key].get(offset)
        return found is not None and found.is_sure

    def forget(self, key: PartitionKey, offsets: Iterable[int]) -> None:
        """They are delivered again, or answered."""
        if failures := self._failures[key]:
            for offset in offsets:
                failures.pop(offset, None)

    def forget_all(self, key: PartitionKey) -> None:
        """Its assignment is over: all that is open is delivered again."""
        self._failures.pop(key, None)
        self.perhaps_unwritten[key] |= self.unwritten.pop(key, set())

    def spanned(self, key: PartitionKey, first: int, end: int, now: float, process: Any) -> set[int]:
        """What of `[first, end)` an ack by `process` spans, and leaves open for sure."""
        return {
            offset
            for offset, it in self._failures[key].items()
            if first <= offset < end and it.is_sure
            if it.process in {None, process} or now - it.at > self._grace_seconds
        }

"""The names of a partition, and of the log that its offsets are of."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from headrace.runtime.wire.outcomes import is_another_log

_MOST_DIGITS = 9  # anybody may write a stamp, and int() raises if a text has thousands of them


class PartitionKey(NamedTuple):
    """The name that all assignments of a partition share. Sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


def describe_partitions(keys: Iterable[tuple[str, int]]) -> str:
    """Return `orders/0-3, orders/7`: consecutive numbers of a topic as one range.

    `none` if there are none.
    """
    return ", ".join(_ranges(sorted(keys))) or "none"


def _ranges(ordered: list[tuple[str, int]]) -> Iterator[str]:
    numbered = enumerate(ordered)
    for _, group in groupby(numbered, key=lambda item: (item[1][0], item[1][1] - item[0])):
        run = [key for _, key in group]
        (topic, first), (_, last) = run[0], run[-1]
        yield f"{topic}/{first}" if first == last else f"{topic}/{first}-{last}"


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The log that offsets are of: one that was made anew, or cut, has other records at the same offsets.

    `id`: by its source; empty if the source has none. `cuts`: the offsets from which on other records have
    taken the places of earlier ones, as far as this process has seen, in order of time.
    """

    id: str = ""
    cuts: tuple[int, ...] = ()

    @property
    def stamp(self) -> str:
        """The text by which acks and nacks name the log later."""
        return f"{self.id}:{len(self.cuts)}"

    def has(self, stamp: str, offset: int) -> bool:
        """Whether the record that had this offset in the log of that stamp has it here.

        An empty stamp is of any log. Any text may come as a stamp, also of a process that saw other cuts: if
        it doesn't say how many, its id decides.
        """
        seen = stamp.rpartition(":")[2]  # how many cuts there were when the record was handed out
        is_known = seen.isdecimal() and len(seen) <= _MOST_DIGITS
        later = self.cuts[int(seen) :] if is_known else ()
        return not is_another_log(stamp, self.stamp) and all(offset < cut for cut in later)

    def renamed(self, new_id: str) -> "PartitionLog":
        """Return the log as its source names it now: another log, if the id is another one."""
        if self.id and new_id and new_id != self.id:
            return PartitionLog(new_id)
        return replace(self, id=new_id or self.id)

    def cut(self, offset: int) -> "PartitionLog":
        """Return the log with other records from `offset` on."""
        return replace(self, cuts=(*self.cuts, offset))


NO_LOG = PartitionLog()
"""The log of a source that names none, before any cut."""

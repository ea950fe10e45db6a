"""Records whose messages are refused, by content: each is a dead letter, and no other record is one.

Pure. That nothing is committed without its message or its letter is told by results.py.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from deliveries import unended
from history import Entry, RecordId
from results import Result, again
from scenario import Report


@dataclass(frozen=True, slots=True)
class Refusals:
    """Of one load, from its beginning to its end."""

    doomed: Collection[RecordId]
    """Those whose handler never succeeds."""
    written: Sequence[Result]
    """In the output topic, as a consumer reads them that the function is meant for."""
    letters: Sequence[Result]
    history: Sequence[Entry]
    repeats: int
    """Dead letters that kills may have written again."""
    is_once: bool = False
    """Not one message may be there twice."""


def judge_refusals(found: Refusals, report: Report, number: int) -> None:
    """Every figure of repetition `number`, against its bound."""

    def add(name: str, value: float, high: float = 0) -> None:
        report.add(name, value, 0, high, number)

    doomed, buried = set(found.doomed), {it.of for it in found.letters}
    report.add("doomed", len(doomed), 1, 1e9, number)
    add("L1 doomed records that are no dead letters", len(doomed - buried))
    add("L8 dead letters of good records", len(buried - doomed - killed_twice(found.history)))
    add("L8 dead letters again", len(again(found.letters)), found.repeats)
    add("L8 doomed records that were written", len(doomed & {it.of for it in found.written}))
    if found.is_once:
        add("L2 messages again", len(again(found.written)))


def killed_twice(history: Sequence[Entry]) -> set[RecordId]:
    """Those that were twice in a worker that was killed: that has spent their attempts."""
    cut_off, _ = unended(history)
    return {record for record, times in Counter(it.record for it in cut_off).items() if times > 1}

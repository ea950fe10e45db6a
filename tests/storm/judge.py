"""What every storm has to show: what its handlers wrote and its group committed, against the promises.

Pure. DESIGN.md has the promises; L1 to L9 are their names in every storm.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from commits import Sample, beyond, committed_too_far, moved_back, not_at_the_end
from deliveries import early_attempts, longest_stall, lost, repeated, unended
from history import Entry, Partition, RecordId
from order import out_of_order, overlaps, passed_over
from scenario import Report
from ways import IN_ORDER, Way

STALL_SECONDS = 12.0
"""A session that has to end, and a rebalance, three times in a row."""
LOST_BY_CHANCE = 3
"""Memberships: on a busy machine, a heartbeat may come too late. Each raises what may be repeated."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one load, from its beginning to its end."""

    produced: Collection[RecordId]
    ends: Mapping[Partition, int]
    """Of the log, by partition."""
    history: Sequence[Entry]
    samples: Sequence[Sample]
    given_up: Mapping[RecordId, int] = field(default_factory=dict)
    """By the failure policy; when its dead letter was written."""
    thawed: Collection[tuple[int, RecordId]] = ()
    """The worker and the record of handlers that were frozen and went on. They may overlap."""
    alive_until: Mapping[int, int] = field(default_factory=dict)
    """When workers were killed from outside: until then, they were in what they had started."""
    memberships_lost: int = 0
    failing: Collection[RecordId] = ()
    """What no handler can help: they come again behind higher ones, once those have been handled."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the faults of a load explain."""

    repeats: int = 0
    """Records handled again."""
    cut_off: int = 0
    """Handlers that somebody has killed."""
    attempts: int = 0
    """By how many an attempt may be above the deliveries that were seen: a kill may come before its START."""
    memberships_lost: int = 0
    stall_seconds: float = STALL_SECONDS


class Add(Protocol):
    """A figure and its upper bound."""

    def __call__(self, name: str, value: float, high: float = 0) -> None: ...


def judge(found: Evidence, allowed: Allowed, report: Report, number: int, way: Way = IN_ORDER) -> None:
    """Every figure of repetition `number`, against its bound."""
    turned = way.turned(found)

    def add(name: str, value: float, high: float = 0) -> None:
        report.add(name, value, 0, high, number)

    add("memberships lost", found.memberships_lost, allowed.memberships_lost + LOST_BY_CHANCE)
    report.add("produced", len(found.produced), 1, 1e9, number)
    _judge_deliveries(found, turned, allowed, add)
    _judge_order(turned, add)
    _judge_commits(found, add)


def _judge_deliveries(found: Evidence, turned: Evidence, allowed: Allowed, add: Add) -> None:
    history = found.history
    add("L1 lost", len(lost(found.produced, history, found.given_up)))
    again = len(repeated(it for it in history if it.record not in found.failing))
    add("L2 repeated, of those allowed", _share(again, allowed.repeats), 1)
    add("L2 repeated", again, allowed.repeats)
    cut_off, failed = unended(it for it in turned.history if it.record not in turned.given_up)
    add("L2 cut off in a handler", len(cut_off), allowed.cut_off)
    add("L2 started, not ended, and their worker went on", len(failed))
    early = max((by for _, by in early_attempts(history)), default=0)
    add("L2 attempts above what was delivered", early, allowed.attempts)
    add("L9 longest stall, s", longest_stall(history), allowed.stall_seconds)


def _judge_order(found: Evidence, add: Add) -> None:
    others = [it for it in found.history if (it.pid, it.record) not in found.thawed]
    good = [it for it in others if it.record not in found.failing]
    produced = set(found.produced) - set(found.failing)
    add("L3 out of order", len(out_of_order(good)))
    add("L3 started before a lower one was done", len(passed_over(good, produced, found.given_up)))
    together = overlaps(others, found.alive_until)
    add("L4 overlaps", len(together))
    add("L4 longest overlap, s", max((seconds for *_, seconds in together), default=0))


def _judge_commits(found: Evidence, add: Add) -> None:
    too_far = committed_too_far(found.samples, found.history, found.produced, found.given_up)
    add("L5 committed before their end", len(too_far))
    add("L5 committed beyond the end of the log", len(beyond(found.samples, found.ends)))
    add("L6 commits that moved back", len(moved_back(found.samples)))
    add("L9 last commits that aren't the end of the log", len(not_at_the_end(found.samples, found.ends)))


def _share(count: int, allowed: int) -> float:
    return count / allowed if allowed else float(bool(count)) * 2

"""What happened to requests, and whether it may have: pure functions over a history, whoever wrote that."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple


class Place(NamedTuple):
    """Of a request: partition and offset."""

    partition: int
    offset: int


NOWHERE = Place(-1, -1)


@dataclass(frozen=True, slots=True)
class Happened:
    """One line of a history, in the order of time.

    start, end   a worker began with the request at `place`, or has ended it, well or not
    answer       the broker has confirmed its Response
    commit       all of the partition below the offset of `place` is committed
    kill         the worker died
    """

    what: Literal["start", "end", "answer", "commit", "kill"]
    worker: int = 0
    place: Place = NOWHERE


def unanswered(history: Iterable[Happened], requests: Iterable[Place]) -> list[Place]:
    """Those that have no Response in the end."""
    answered = {it.place for it in history if it.what == "answer"}
    return [place for place in requests if place not in answered]


def answered_twice(history: Iterable[Happened]) -> list[Place]:
    """More than one Response."""
    counts = Counter(it.place for it in history if it.what == "answer")
    return [place for place, count in counts.items() if count > 1]


def committed_unanswered(history: Iterable[Happened], requests: Sequence[Place]) -> list[Place]:
    """Those that a commit covered before they had a Response: a crash at that moment would have lost them."""
    answered: set[Place] = set()
    found: dict[Place, None] = {}
    for it in history:
        if it.what == "answer":
            answered.add(it.place)
        elif it.what == "commit":
            covered = (
                p for p in requests if p.partition == it.place.partition and p.offset < it.place.offset
            )
            found |= {place: None for place in covered if place not in answered}
    return list(found)


def begun_beside_another(history: Iterable[Happened]) -> list[Place]:
    """Those that a worker began while it was in another one."""
    busy: dict[int, Place] = {}
    found = []
    for it in history:
        if it.what == "start":
            if it.worker in busy:
                found.append(it.place)
            busy[it.worker] = it.place
        elif it.what == "kill" or (it.what == "end" and busy.get(it.worker) == it.place):
            busy.pop(it.worker, None)
    return found


def begun_twice(history: Sequence[Happened]) -> list[Place]:
    """More often than kills explain: once for each kill of the worker that had begun it last.

    That it had ended says nothing: its Response may have been on its way.
    """
    last: dict[int, Place] = {}
    starts: Counter[Place] = Counter()
    for it in history:
        if it.what == "start":
            starts[it.place] += 1
            last[it.worker] = it.place
        elif it.what == "kill" and it.worker in last:
            starts[last.pop(it.worker)] -= 1
    return [place for place, count in starts.items() if count > 1]


def out_of_order(history: Iterable[Happened]) -> list[Place]:
    """Those that began before one below them in their partition was over."""
    open_: dict[Place, None] = {}
    found = []
    for it in history:
        if it.what == "start":
            if any(p.partition == it.place.partition and p != it.place for p in open_):
                found.append(it.place)
            open_[it.place] = None
        elif it.what == "end":
            open_.pop(it.place, None)
        elif it.what == "kill":
            open_.clear()  # which of them it was in isn't said here
    return found

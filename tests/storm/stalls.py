"""Partitions whose commit doesn't move, and what their replicas say of it: a reader must find out why."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from history import Partition
from judge import STALL_SECONDS
from load import Load
from replica import Replica
from scenario import Report

_LOOK_SECONDS = 1.0
_MOVES = ("committable", "position", "unsettled", "unacked", "attempt")
"""What changes where a partition doesn't stand still, though its commit does."""


@dataclass
class Stalls:
    """What was seen of one load. A partition is known by its number and the commit at which it stands."""

    unnamed: dict[tuple[int, int], str] = field(default_factory=dict)
    """What its replica said instead of a reason."""
    _moved: dict[Partition, tuple[object, float]] = field(default_factory=dict)  # how it stands, since when

    def look(self, load: Load, now: float) -> None:
        """Once. A reason that was named is asked for anew after as long again."""
        committed = load.samples[-1].offsets if load.samples else {}
        standing = {key: committed.get(key, 0) for key, end in load.ends.items() if committed.get(key) != end}
        rows = partition_rows(load.replicas) if standing else {}
        for key, offset in standing.items():
            row = rows.get(key[1], {})
            seen = offset, *(row.get(name) for name in _MOVES)
            before, since = self._moved.get(key, (None, now))
            if before != seen or is_named(row):
                self._moved[key] = seen, now
            elif now - since > STALL_SECONDS:
                self.unnamed.setdefault((key[1], offset), str(row or "nobody has it"))

    def say(self, report: Report, number: int) -> None:
        """The figure of the storm, and each row on its own."""
        for (partition, offset), row in self.unnamed.items():
            print(f"partition {partition} stands at {offset}: {row}", flush=True)
        report.add("L9 stalls without a named reason", len(self.unnamed), 0, 0, number)


def is_named(row: dict[str, Any]) -> bool:
    """Whether it says why it stands. A backoff, or a dead letter's write, is over long before."""
    waits_for_an_ack = 0 < row.get("oldestUnackedSeconds", 0) < STALL_SECONDS
    return waits_for_an_ack or bool(row.get("limitedBy") or row.get("isInProblems"))


def partition_rows(replicas: Sequence[Replica]) -> dict[int, dict[str, Any]]:
    """Of each partition that somebody has: its row, and whether `/ready` names it."""
    rows = {}
    for running in list(replicas):
        try:
            told = running.trigger()["partitions"]
            problems = json.loads(running.get("/ready")[1])["problems"]
        except (OSError, LookupError, ValueError, AssertionError):  # it was killed meanwhile, or only starts
            continue
        for row in told:
            place = f"{row['topic']}/{row['partition']} "
            rows[row["partition"]] = row | {"isInProblems": any(place in problem for problem in problems)}
    return rows


@contextmanager
def stalls_of(load: Load) -> Iterator[Stalls]:
    """Looks, all the time, until the block ends."""
    found = Stalls()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            found.look(load, time.monotonic())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()

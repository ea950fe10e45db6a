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


@dataclass
class Stalls:
    """What was seen of one load. A partition is known by its number and the commit at which it stands."""

    unnamed: dict[tuple[int, int], str] = field(default_factory=dict)
    """What its replica said instead of a reason."""
    _moved: dict[Partition, tuple[int, float]] = field(default_factory=dict)  # a commit, and since when

    def look(self, load: Load, now: float) -> None:
        """Once. A reason that was named is asked for anew after as long again."""
        committed = load.samples[-1].offsets if load.samples else {}
        standing = []
        for key, end in load.ends.items():
            offset = committed.get(key, 0)
            if self._moved.get(key, (-1, 0.0))[0] != offset or offset >= end:
                self._moved[key] = offset, now
            elif now - self._moved[key][1] > STALL_SECONDS:
                standing.append(key[1])
        rows = partition_rows(load.replicas) if standing else {}
        for partition in standing:
            key = load.topic, partition
            if not (row := rows.get(partition)) or not is_named(row):
                self.unnamed.setdefault((partition, self._moved[key][0]), str(row or "nobody has it"))
            else:
                self._moved[key] = self._moved[key][0], now

    def say(self, report: Report, number: int) -> None:
        """The figure of the storm, and each row on its own."""
        for (partition, offset), row in self.unnamed.items():
            print(f"partition {partition} stands at {offset}: {row}", flush=True)
        report.add("L9 stalls without a named reason", len(self.unnamed), 0, 0, number)


def is_named(row: dict[str, Any]) -> bool:
    """Whether it says why it stands. A backoff, or a dead letter's write, is over long before."""
    waits_for_an_ack = 0 < row["oldestUnackedSeconds"] < STALL_SECONDS
    return waits_for_an_ack or bool(row["limitedBy"]) or row["isInProblems"]


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

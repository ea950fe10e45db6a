"""Handlers of one partition: in the order of its log (L3), and one at a time (L4)."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from history import Entry, Partition, RecordId


@dataclass(slots=True)
class _Deliveries:
    """Of one partition: what was started last, what was highest, and where the last owner began."""

    last: Entry
    highest: int
    began: int

    def falls(self, entry: Entry, is_first: bool, is_ended: bool) -> bool:
        """Whether `entry` has no place behind what was started before it."""
        if entry.offset < self.began or (is_first and entry.offset < self.highest):
            return True
        if entry.replica != self.last.replica or (entry.offset < self.last.offset and is_ended):
            self.began = entry.offset  # from a commit, which never moves back
        return False


def _starts(history: Iterable[Entry]) -> Iterator[tuple[Entry, AbstractSet[RecordId]]]:
    """Each START, with the records that had ended by then."""
    ended: set[RecordId] = set()
    for entry in history:
        if entry.what == "END":
            ended.add(entry.record)
        elif entry.what == "START":
            yield entry, ended


def out_of_order(history: Iterable[Entry]) -> list[tuple[Entry, Entry]]:
    """L3: neighbours among the STARTs of a partition whose offsets fall, though nobody began anew there.

    Whoever begins does so at a commit: nobody begins, or goes on, in front of where another one has begun.
    """
    partitions: dict[Partition, _Deliveries] = {}
    started: set[RecordId] = set()
    found = []
    for entry, ended in _starts(history):
        so_far = partitions.setdefault(entry.key, _Deliveries(entry, entry.offset, entry.offset))
        if so_far.falls(entry, entry.record not in started, entry.record in ended):
            found.append((so_far.last, entry))
        started.add(entry.record)
        so_far.last, so_far.highest = entry, max(so_far.highest, entry.offset)
    return found


def passed_over(
    history: Iterable[Entry], produced: Collection[RecordId], given_up: Mapping[RecordId, int]
) -> list[tuple[Entry, RecordId]]:
    """L3: STARTs behind a lower record that had neither ended nor been given up; each such record once."""
    waiting: dict[Partition, list[int]] = defaultdict(list)
    for topic, partition, offset in sorted(produced, reverse=True):
        waiting[topic, partition].append(offset)
    found = []
    for entry, ended in _starts(history):
        lower = waiting[entry.key]
        while lower and lower[-1] < entry.offset:
            record = (*entry.key, lower.pop())
            if record not in ended and given_up.get(record, entry.ns) >= entry.ns:
                found.append((entry, record))
    return found


def overlaps(
    history: Iterable[Entry], alive_until: Mapping[int, int] | None = None
) -> list[tuple[Entry, Entry, float]]:
    """L4: two handlers in one partition at the same time, and for how many seconds at least.

    A handler without an END was killed, or failed: it is known to have run until its last TICK, or until its
    process was killed, where `alive_until` says when.
    """
    runs: dict[Partition, list[tuple[Entry, int]]] = defaultdict(list)
    for start, end_ns in _runs(history, alive_until or {}):
        runs[start.key].append((start, end_ns))
    found = []
    for entries in runs.values():
        entries.sort(key=lambda run: run[0].ns)
        longest = entries[0]
        for run in entries[1:]:
            if run[0].ns < longest[1]:
                found.append((longest[0], run[0], (min(longest[1], run[1]) - run[0].ns) / 1e9))
            longest = max(longest, run, key=lambda it: it[1])
    return found


def _runs(history: Iterable[Entry], alive_until: Mapping[int, int]) -> Iterator[tuple[Entry, int]]:
    """Each START with the time until which it ran at least."""
    open_runs: dict[tuple[int, RecordId], tuple[Entry, int]] = {}
    last: dict[int, tuple[int, RecordId]] = {}  # what each process has started last
    for entry in history:
        name = (entry.pid, entry.record)
        if entry.what == "START":
            if (before := open_runs.pop(name, None)) is not None:
                yield before
            open_runs[name] = (entry, entry.ns)
            last[entry.pid] = name
        elif name in open_runs and entry.what in {"TICK", "END"}:
            start, _ = open_runs[name]
            open_runs[name] = (start, entry.ns)
            if entry.what == "END":
                yield open_runs.pop(name)
    for (pid, record), (start, end_ns) in open_runs.items():
        was_in_it = last[pid] == (pid, record)
        yield start, max(end_ns, alive_until.get(pid, 0)) if was_in_it else end_ns

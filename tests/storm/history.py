"""What handlers did, written down so that no kill can take it back, and what must be true of it.

Each START, TICK ("still in it"), END and ACK is one write to a file opened with O_APPEND. The checkers are
pure: DESIGN.md has the promises; L1 to L9 are their names in every storm.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

# For handlers with worker_bench.PRELUDE: `note("START", event)`. The parent is asked before it can die.
RECORDER = """
    HISTORY = os.open(FOLDER / "history", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    REPLICA = os.getppid()

    def note(what, event):
        record = f"{event.topic} {event.shard_id} {event.offset} {event.attempt}"
        os.write(HISTORY, f"{what} {record} {os.getpid()} {REPLICA} {time.monotonic_ns()}\\n".encode())
"""

Partition = tuple[str, int]
RecordId = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """`what` is START, TICK, END or ACK; `ns` is on CLOCK_MONOTONIC, which all processes share."""

    what: str
    topic: str
    partition: int
    offset: int
    attempt: int
    pid: int
    replica: int
    ns: int

    @property
    def key(self) -> Partition:
        return (self.topic, self.partition)

    @property
    def record(self) -> RecordId:
        return (self.topic, self.partition, self.offset)


@dataclass(frozen=True, slots=True)
class Sample:
    """What the broker said that the group has committed; it has said so by `ns`."""

    ns: int
    offsets: Mapping[Partition, int]


class History:
    """One that grows: what is there already is read once."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "history"
        self._position = 0
        self.entries: list[Entry] = []
        """In the order of the writes."""
        self.ended: set[RecordId] = set()

    def read_on(self) -> None:
        """What was written meanwhile."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self._position += len(text)
        for line in text.decode().splitlines():
            what, topic, *rest = line.split()
            self.entries.append(Entry(what, topic, *map(int, rest)))
            if what == "END":
                self.ended.add(self.entries[-1].record)


def read_history(folder: Path) -> list[Entry]:
    """All of it, so far."""
    history = History(folder)
    history.read_on()
    return history.entries


def lost(
    produced: Collection[RecordId], history: Iterable[Entry], given_up: Collection[RecordId] = ()
) -> set[RecordId]:
    """L1: what nobody has finished, nor the failure policy given up."""
    return set(produced) - {entry.record for entry in history if entry.what == "END"} - set(given_up)


def repeated(history: Iterable[Entry]) -> list[Entry]:
    """L2: each END of a record after its first."""
    seen: set[RecordId] = set()
    again = []
    for entry in history:
        if entry.what == "END":
            if entry.record in seen:
                again.append(entry)
            seen.add(entry.record)
    return again


def out_of_order(history: Iterable[Entry]) -> list[tuple[Entry, Entry]]:
    """L3: neighbours among the first STARTs of a partition's records whose offsets fall."""
    firsts: dict[Partition, list[Entry]] = defaultdict(list)
    seen: set[RecordId] = set()
    for entry in history:
        if entry.what == "START" and entry.record not in seen:
            seen.add(entry.record)
            firsts[entry.key].append(entry)
    return [(a, b) for entries in firsts.values() for a, b in pairwise(entries) if b.offset < a.offset]


def overlaps(history: Iterable[Entry]) -> list[tuple[Entry, Entry, float]]:
    """L4: two handlers in one partition at the same time, and for how many seconds.

    A handler without an END was killed, or failed: it is known to have run until its last TICK.
    """
    runs: dict[Partition, list[tuple[Entry, int]]] = defaultdict(list)
    for start, end_ns in _runs(history):
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


def _runs(history: Iterable[Entry]) -> Iterator[tuple[Entry, int]]:
    """Each START with the time until which it ran at least. A process is in one record at a time."""
    open_runs: dict[int, tuple[Entry, int]] = {}
    for entry in history:
        if entry.what == "START":
            if (before := open_runs.pop(entry.pid, None)) is not None:
                yield before
            open_runs[entry.pid] = (entry, entry.ns)
        elif entry.pid in open_runs and entry.what in {"TICK", "END"}:
            start, _ = open_runs[entry.pid]
            open_runs[entry.pid] = (start, entry.ns)
            if entry.what == "END":
                yield open_runs.pop(entry.pid)
    yield from open_runs.values()


def committed_too_far(
    samples: Iterable[Sample],
    history: Iterable[Entry],
    produced: Collection[RecordId],
    given_up: Collection[RecordId] = (),
) -> list[tuple[Sample, RecordId]]:
    """L5: samples that cover a record which nobody had finished by then."""
    ended: dict[RecordId, int] = dict.fromkeys(given_up, 0)
    for entry in history:
        if entry.what == "END":
            ended.setdefault(entry.record, entry.ns)
    by_partition: dict[Partition, list[int]] = defaultdict(list)
    for topic, partition, offset in sorted(produced):
        by_partition[topic, partition].append(offset)
    found = []
    checked: dict[Partition, int] = defaultdict(
        int
    )  # how many are known to have ended before the last sample
    for sample in sorted(samples, key=lambda it: it.ns):
        for key, offset in sample.offsets.items():
            offsets = by_partition[key]
            while checked[key] < len(offsets) and offsets[checked[key]] < offset:
                record = (*key, offsets[checked[key]])
                if ended.get(record, sample.ns) >= sample.ns:
                    found.append((sample, record))
                checked[key] += 1
    return found


def moved_back(samples: Iterable[Sample]) -> list[tuple[Partition, int, int]]:
    """L6: commits below an earlier one, as (partition, before, after)."""
    highest: dict[Partition, int] = {}
    found = []
    for sample in sorted(samples, key=lambda it: it.ns):
        for key, offset in sample.offsets.items():
            if offset < highest.get(key, 0):
                found.append((key, highest[key], offset))
            highest[key] = max(offset, highest.get(key, 0))
    return found


def started_between(history: Iterable[Entry], replica: int, first_ns: int, end_ns: int) -> list[Entry]:
    """L7: what a replica has started in a time in which nothing was its own."""
    return [
        it for it in history if it.what == "START" and it.replica == replica and first_ns < it.ns < end_ns
    ]


def gone_on_with(history: Iterable[Entry], pids: Collection[int], woke_ns: int) -> dict[int, RecordId]:
    """The record that each of these processes was in when it was frozen, if it went on with it.

    That is what it says first when it has woken up, even if it says START: it may have been about to.
    """
    found: dict[int, RecordId] = {}
    for entry in history:
        if entry.pid in pids and entry.ns > woke_ns:
            found.setdefault(entry.pid, entry.record)
    return found


def started_late(history: Iterable[Entry], pids: Collection[int], woke_ns: int, owned_ns: int) -> list[Entry]:
    """L7: what frozen processes have started from their waking until they owned something again.

    The record that each was in is not counted.
    """
    entries = [it for it in history if it.pid in pids and woke_ns < it.ns < owned_ns]
    own = gone_on_with(entries, pids, woke_ns)
    return [it for it in entries if it.what == "START" and it.record != own[it.pid]]


def changed_letters(
    originals: Mapping[RecordId, tuple[bytes | None, bytes | None]],
    letters: Mapping[RecordId, tuple[bytes | None, bytes | None]],
) -> set[RecordId]:
    """L8: dead letters whose key or value isn't that of the record that they name."""
    return {record for record, letter in letters.items() if originals.get(record) != letter}


def longest_stall(history: Iterable[Entry]) -> float:
    """L9: the longest time between the first END and the last in which no handler has ended."""
    ends = sorted(entry.ns for entry in history if entry.what == "END")
    return max((b - a for a, b in pairwise(ends)), default=0) / 1e9

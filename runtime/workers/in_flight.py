"""Which records a worker holds: the processor's side of the wire's sequence numbers. Pure."""

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire.frames import NonsenseError, RunHeader, WireRecord
from headrace.runtime.wire.progress_slot import Progress


@dataclass(slots=True)
class Run:
    """Consecutive records of one lane at one worker; record i has seq `first_seq + i`."""

    lane: Lane
    first_seq: int
    records: Sequence[WireRecord]
    epoch: int = 0
    """Of the lane, when they were sent."""

    @property
    def end_seq(self) -> int:
        """The seq after its last record."""
        return self.first_seq + len(self.records)

    @property
    def may_come_back(self) -> bool:
        """It was asked for, or a record before it has failed."""
        return self.lane.is_recalled or self.epoch < self.lane.epoch


@dataclass(slots=True)
class _Given:
    """What a process was given of one lane: how many records, all of them of offsets `[first, end)`."""

    first: int
    end: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class RunningRecord:
    """What a worker is in. `since_ns` is by time.monotonic_ns."""

    seq: int
    lane: Lane
    record: WireRecord
    since_ns: int

    @property
    def seconds(self) -> float:
        """How long it has run by now."""
        return (time.monotonic_ns() - self.since_ns) / 1e9


class InFlight:
    """Runs at one worker process, in the order in which it gets to them."""

    def __init__(self) -> None:
        self.runs: deque[Run] = deque()
        self.batch_size = 0
        """How many records the last batch had; 0 where they are handled one by one."""
        self.slow_seq: int | None = None
        """The last record that was seen to take long."""
        self.next_seq = 0
        """Of the record that it will be given next."""
        self._count = 0
        self._given: dict[int, _Given] = {}  # by lane

    @property
    def is_straggling(self) -> bool:
        """Its process is still in the record that took long."""
        return self.slow_seq is not None and bool(self.runs) and self.runs[0].first_seq <= self.slow_seq

    def __len__(self) -> int:
        """How many records."""
        return self._count

    def add(self, lane: Lane, records: Sequence[WireRecord], has_more: bool = False) -> RunHeader:
        """Records at the same attempt are about to be sent; the header to send them under."""
        first_seq = self.next_seq
        self.next_seq += len(records)
        self._count += len(records)
        first = records[0]
        given = self._given.get(lane.id) or self._given.setdefault(lane.id, _Given(first.offset))
        given.first = min(given.first, first.offset)
        given.end = max(given.end, records[-1].offset + 1)
        given.count += len(records)
        self.runs.append(Run(lane, first_seq, records, lane.epoch))
        return RunHeader(lane.id, lane.epoch, first_seq, lane.attempt(first), len(records), has_more)

    def forget(self, lane: Lane) -> None:
        """It is over, and nothing of it is there."""
        self._given.pop(lane.id, None)

    def has_given(self, lane_id: int, first: int, end: int) -> bool:
        """Whether the process may know of `[first, end)`: they lie within what it was given of that lane."""
        given = self._given.get(lane_id)
        return given is not None and given.first <= first < end <= given.end and end - first <= given.count

    def settle_before(self, seq: int) -> Iterator[tuple[Lane, Sequence[WireRecord]]]:
        """Take out what lies before `seq`: all of that has had the same outcome."""
        while self.runs and self.runs[0].first_seq < seq:
            run = self.runs[0]
            done = run.records[: seq - run.first_seq]
            self._drop(run, len(done))
            yield run.lane, done

    def take(self, seq: int) -> tuple[Lane, Sequence[WireRecord]] | None:
        """Take out record `seq`, which must be the first in flight; None where it isn't in flight."""
        if not self.runs or self.runs[0].first_seq != seq:
            return None
        run = self.runs[0]
        record = run.records[:1]
        self._drop(run, 1)
        return run.lane, record

    def take_started(self, seq: int, *, is_batch: bool) -> list[Run]:
        """Take out what was being handled when `seq` ran: that record, or a batch, which is all there is."""
        if is_batch and self.find(seq) is None:
            return []  # it died between its last word on a batch and the slot's, and another was on its way
        if is_batch:
            return [_joined(list(of_one)) for _, of_one in groupby(self.take_all(), key=lambda run: run.lane)]
        taken = self.take(seq)
        return [Run(taken[0], seq, taken[1])] if taken else []

    def take_back(self, first: int, end: int) -> tuple[Lane, Sequence[WireRecord]]:
        """Take out the records of `[first, end)`.

        Raises NonsenseError for others than the tail of a run, and for what it has no reason to give back:
        who could do that without one would be given its records for ever.
        """
        run = next((run for run in self.runs if run.first_seq <= first < run.end_seq == end), None)
        if run is None or not run.may_come_back:
            raise NonsenseError(f"it gives back records {first} to {end}")
        keep = first - run.first_seq
        returned = run.records[keep : end - run.first_seq]
        run.records = run.records[:keep]
        self._count -= len(returned)
        if not keep:
            self.runs.remove(run)
        return run.lane, returned

    def take_all(self) -> Sequence[Run]:
        """Take out what is left."""
        runs, self.runs, self._count = self.runs, deque(), 0
        return runs

    def find(self, seq: int) -> tuple[Lane, WireRecord] | None:
        """Record `seq`, left where it is."""
        for run in self.runs:
            if run.first_seq <= seq < run.end_seq:
                return run.lane, run.records[seq - run.first_seq]
        return None

    def running(self, progress: Progress) -> RunningRecord | None:
        """What the slot says; None where that is idle, or in a record whose outcome has come."""
        found = self.find(progress.seq) if progress.is_running else None
        return None if found is None else RunningRecord(progress.seq, *found, progress.since_ns)

    def holds(self, lane: Lane, first: int, end: int, from_seq: int) -> bool:
        """Whether a record of offsets `[first, end)` is among those from `from_seq` on."""
        for run in self.runs:
            if run.lane is lane and run.end_seq > from_seq:
                low = max(0, from_seq - run.first_seq)
                at = bisect_left(run.records, first, low, key=lambda record: record.offset)
                if at < len(run.records) and run.records[at].offset < end:
                    return True
        return False

    def _drop(self, run: Run, count: int) -> None:
        self._count -= count
        if count == len(run.records):
            self.runs.popleft()
        else:
            run.records = run.records[count:]
            run.first_seq += count


def _joined(runs: Sequence[Run]) -> Run:
    return Run(runs[0].lane, runs[0].first_seq, [record for run in runs for record in run.records])

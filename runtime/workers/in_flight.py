"""Which records a worker holds: the processor's side of the wire's sequence numbers. Pure."""

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire.progress_slot import Progress, ProgressSlot
from headrace.runtime.wire.records import ProtocolViolationError, RunHeader, WireRecord


@dataclass(slots=True, eq=False)
class Run:
    """Consecutive records of one lane at one worker; record i has seq `first_seq + i`."""

    lane: Lane
    first_seq: int
    records: Sequence[WireRecord]
    epoch: int = 0
    """Of the lane, when they were sent."""
    batch: range = range(0)
    """The seqs of the batch that it is of; empty where records are handled one by one."""

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
    """Runs at one worker process, in the order in which it gets to them.

    Where its records overlap, those of different lanes end in any order.
    """

    def __init__(self) -> None:
        self.runs: deque[Run] = deque()
        self.seats = 1
        """How many records its process may run at once."""
        self.is_isolated = False
        """What was sent last may kill its process: nothing is to run beside it."""
        self.slow: frozenset[int] = frozenset()
        """The records that were seen last to take so long that nothing else begins."""
        self.next_seq = 0
        """Of the record that it will be given next."""
        self.last_lane: Lane | None = None
        """Of the record whose outcome has come last."""
        self._count = 0
        self._given: dict[int, _Given] = {}  # by lane
        self._run_of: dict[int, Run] = {}  # by seq, where they overlap
        self._runs_of: dict[int, int] = {}  # how many, by lane, where they overlap

    @property
    def is_straggling(self) -> bool:
        """Its process is still in all of those."""
        if not self.slow:
            return False
        if self.overlaps:
            return self.slow <= self._run_of.keys()
        return bool(self.runs) and self.runs[0].first_seq <= max(self.slow)

    @property
    def batch(self) -> range:
        """The seqs of the first batch, of which some may be settled; empty where there is none."""
        return self.runs[0].batch if self.runs else range(0)

    @property
    def has_one_batch(self) -> bool:
        """Nothing waits behind it."""
        return self.batch.stop == self.next_seq

    def batch_of(self, seq: int) -> range:
        """The seqs of the one that `seq` is in; empty where it is in none, or nothing of that is here."""
        return next((run.batch for run in self.runs if seq in run.batch), range(0))

    def end_of(self, progress: Progress) -> int:
        """Where that ends which runs by this reading, a record or a batch: what follows hasn't started."""
        batch = self.batch_of(progress.seq) if progress.is_running else range(0)
        return batch.stop or progress.seq + progress.is_running

    @property
    def overlaps(self) -> bool:
        """Its process may run several records at once."""
        return self.seats > 1

    @property
    def has_free_seat(self) -> bool:
        """Another lane would run at once: the records of one never run beside each other."""
        return len(self._runs_of) < self.seats if self.overlaps else not self.runs

    def __len__(self) -> int:
        """How many records."""
        return self._count

    def add(
        self, lane: Lane, records: Sequence[WireRecord], batch: range = range(0), *, has_more: bool = False
    ) -> RunHeader:
        """Records at the same attempt are about to be sent; the header to send them under."""
        first_seq = self.next_seq
        self.next_seq += len(records)
        self._count += len(records)
        first = records[0]
        whole_id = lane.whole.id
        given = self._given.get(whole_id) or self._given.setdefault(whole_id, _Given(first.offset))
        given.first = min(given.first, first.offset)
        given.end = max(given.end, records[-1].offset + 1)
        given.count += len(records)
        run = Run(lane, first_seq, records, lane.epoch, batch)
        self.runs.append(run)
        if self.overlaps:
            self._run_of.update(dict.fromkeys(range(first_seq, self.next_seq), run))
            self._runs_of[lane.id] = self._runs_of.get(lane.id, 0) + 1
        attempt, of_whole = lane.attempt(first), None if whole_id == lane.id else whole_id
        return RunHeader(lane.id, lane.epoch, first_seq, attempt, len(records), has_more, of_whole)

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

    def take_failed(self, end: int) -> list[tuple[Lane, Sequence[WireRecord]]]:
        """Take out what lies before `end`: all of a lane has failed together, in however many runs."""
        of_lanes = groupby(list(self.settle_before(end)), key=itemgetter(0))
        return [(lane, _joined([records for _, records in of_one])) for lane, of_one in of_lanes]

    def take(self, seq: int) -> tuple[Lane, Sequence[WireRecord]] | None:
        """Take out record `seq`; None where it isn't the first in flight, or if they overlap of its run."""
        run = self._run_of.get(seq) if self.overlaps else self.runs[0] if self.runs else None
        if run is None or run.first_seq != seq:
            return None
        self._run_of.pop(seq, None)
        record = run.records[:1]
        self._drop(run, 1)
        return run.lane, record

    def take_started(self, seq: int) -> list[Run]:
        """Take out what was being handled when `seq` ran: that record, or its batch.

        Nothing, where it isn't here: it died between its last word on that and the slot's.
        """
        if batch := self.batch_of(seq):
            started = [run for run in self.runs if run.batch == batch]
            for run in started:
                self._drop(run, len(run.records))
            of_lanes = [list(of_one) for _, of_one in groupby(started, key=lambda run: run.lane)]
            return [Run(of[0].lane, of[0].first_seq, _joined([it.records for it in of])) for of in of_lanes]
        taken = self.take(seq)
        return [Run(taken[0], seq, taken[1])] if taken else []

    def take_back(self, first: int, end: int) -> tuple[Lane, Sequence[WireRecord]]:
        """Take out the records of `[first, end)`.

        Raises ProtocolViolationError for others than the tail of a run, and for what it has no reason to
        give back:
        who could do that without one would be given its records for ever.
        """
        run = next((run for run in self.runs if run.first_seq <= first < run.end_seq == end), None)
        if run is None or not run.may_come_back:
            raise ProtocolViolationError(f"it gives back records {first} to {end}")
        keep = first - run.first_seq
        returned = run.records[keep : end - run.first_seq]
        run.records = run.records[:keep]
        self._count -= len(returned)
        for seq in range(first, end) if self.overlaps else ():
            del self._run_of[seq]
        if not keep:
            self._remove(run)
        return run.lane, returned

    def take_all(self) -> Sequence[Run]:
        """Take out what is left."""
        runs, self.runs, self._count = self.runs, deque(), 0
        self._run_of.clear()
        self._runs_of.clear()
        return runs

    def find(self, seq: int) -> tuple[Lane, WireRecord] | None:
        """Record `seq`, left where it is."""
        run = self._run_at(seq)
        return None if run is None else (run.lane, run.records[seq - run.first_seq])

    def running(self, slot: ProgressSlot) -> list[RunningRecord]:
        """What the slot says, by seq, without those whose outcome has come."""
        if self.overlaps:
            said: Sequence[tuple[int, int]] = slot.calls.read()
        else:
            now = slot.read()
            said = [(now.seq, now.since_ns)] if now.is_running else []
        found = [(seq, self.find(seq), since_ns) for seq, since_ns in said]
        return [RunningRecord(seq, *it, since_ns) for seq, it, since_ns in found if it is not None]

    def holds(self, lane: Lane, first: int, end: int, from_seq: int) -> bool:
        """Whether a record of offsets `[first, end)` is among those from `from_seq` on."""
        for run in self.runs:
            if run.lane is lane and run.end_seq > from_seq:
                low = max(0, from_seq - run.first_seq)
                at = bisect_left(run.records, first, low, key=lambda record: record.offset)
                if at < len(run.records) and run.records[at].offset < end:
                    return True
        return False

    def _run_at(self, seq: int) -> Run | None:
        if self.overlaps:
            return self._run_of.get(seq)
        return next((run for run in self.runs if run.first_seq <= seq < run.end_seq), None)

    def _drop(self, run: Run, count: int) -> None:
        self.last_lane = run.lane
        self._count -= count
        if count == len(run.records):
            self._remove(run)
        else:
            run.records = run.records[count:]
            run.first_seq += count

    def _remove(self, run: Run) -> None:
        self.runs.remove(run)  # the first, unless they overlap
        if self.overlaps:
            left = self._runs_of.pop(run.lane.id) - 1
            if left:
                self._runs_of[run.lane.id] = left


def _joined(parts: Sequence[Sequence[WireRecord]]) -> Sequence[WireRecord]:
    return parts[0] if len(parts) == 1 else [record for part in parts for record in part]

"""Records that a worker process holds, by the wire's sequence numbers. Pure."""

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire.framing import ProtocolViolationError
from headrace.runtime.wire.progress_slot import Progress, ProgressSlot
from headrace.runtime.wire.records import RunHeader, WireRecord


@dataclass(slots=True, eq=False)
class Run:
    """Consecutive records of one lane at one worker; record i has seq `first_seq + i`."""

    lane: Lane
    first_seq: int
    records: Sequence[WireRecord]
    epoch: int = 0
    """Epoch of the lane when they were sent."""
    batch: range = range(0)
    """Seqs of its whole batch; empty if records are handled one by one."""

    @property
    def end_seq(self) -> int:
        """Seq after its last record."""
        return self.first_seq + len(self.records)

    @property
    def may_be_returned(self) -> bool:
        """Whether the worker may give it back: it was recalled, or a record before it has failed."""
        return self.lane.is_recalled or self.epoch < self.lane.epoch


@dataclass(frozen=True, slots=True)
class RunningRecord:
    """A record that a worker runs. `since_ns` is by time.monotonic_ns."""

    seq: int
    lane: Lane
    record: WireRecord
    since_ns: int

    @property
    def seconds(self) -> float:
        """Time that it has run by now."""
        return (time.monotonic_ns() - self.since_ns) / 1e9


class InFlight:
    """Runs at one worker process, in the order in which it gets to them.

    If records overlap (maxConcurrency), those of different lanes end in any order.
    """

    def __init__(self) -> None:
        self.runs: deque[Run] = deque()
        self.seats = 1
        """Number of records that its process may run at once."""
        self.is_isolated = False
        """Whether the record that was sent last is a suspect: no other is to run beside it."""
        self.slow: frozenset[int] = frozenset()
        """Seqs of the records that took so long, when last looked at, that no other could begin."""
        self.next_seq = 0
        """Seq of the record that it will be given next."""
        self.last_lane: Lane | None = None
        """Lane of the record whose outcome has come last."""
        self._count = 0
        # By lane id, the offsets [first, end) that the process was given, and of how many records. Offsets
        # that a worker names are checked against this.
        self._sent: dict[int, tuple[int, int, int]] = {}
        # Only if records overlap, as their outcomes come in any order: runs, by the seq of each record.
        self._run_by_seq: dict[int, Run] = {}
        # Only if records overlap: number of runs by lane.
        self._run_counts: dict[int, int] = {}

    @property
    def is_straggling(self) -> bool:
        """Whether the process is still in all of the slow records."""
        if not self.slow:
            return False
        if self.overlaps:
            return self.slow <= self._run_by_seq.keys()
        return bool(self.runs) and self.runs[0].first_seq <= max(self.slow)

    @property
    def batch(self) -> range:
        """Seqs of the first batch, of which some may be settled; empty if there is none."""
        return self.runs[0].batch if self.runs else range(0)

    @property
    def has_one_batch(self) -> bool:
        """Whether nothing waits behind the first batch."""
        return self.batch.stop == self.next_seq

    def batch_of(self, seq: int) -> range:
        """Return the seqs of the batch of `seq`; empty if it is in none, or none of its records is here."""
        return next((run.batch for run in self.runs if seq in run.batch), range(0))

    def end_of(self, progress: Progress) -> int:
        """Return the end of the record or batch that runs by this reading: all behind it hasn't started."""
        batch = self.batch_of(progress.seq) if progress.is_running else range(0)
        return batch.stop or progress.seq + progress.is_running

    @property
    def overlaps(self) -> bool:
        """Whether the process may run several records at once."""
        return self.seats > 1

    @property
    def has_free_seat(self) -> bool:
        """Whether another lane would run at once: the records of one never run beside each other."""
        return len(self._run_counts) < self.seats if self.overlaps else not self.runs

    def __len__(self) -> int:
        """Return the number of records."""
        return self._count

    def add(
        self, lane: Lane, records: Sequence[WireRecord], batch: range = range(0), *, has_more: bool = False
    ) -> RunHeader:
        """Enter records at the same attempt that are about to be sent. Return the header of their run."""
        first_seq = self.next_seq
        self.next_seq += len(records)
        self._count += len(records)
        first = records[0]
        whole_id = lane.whole.id
        from_offset, end, count = self._sent.get(whole_id, (first.offset, 0, 0))
        from_offset, end = min(from_offset, first.offset), max(end, records[-1].offset + 1)
        self._sent[whole_id] = from_offset, end, count + len(records)
        run = Run(lane, first_seq, records, lane.epoch, batch)
        self.runs.append(run)
        if self.overlaps:
            self._run_by_seq.update(dict.fromkeys(range(first_seq, self.next_seq), run))
            self._run_counts[lane.id] = self._run_counts.get(lane.id, 0) + 1
        # One attempt stands for all records: whoever sends cuts runs where the attempt changes.
        attempt, announced_id = lane.attempt(first), None if whole_id == lane.id else whole_id
        return RunHeader(lane.id, lane.epoch, first_seq, attempt, len(records), has_more, announced_id)

    def forget(self, lane: Lane) -> None:
        """Drop what was noted of a lane that is over: the process holds none of its records."""
        self._sent.pop(lane.id, None)

    def has_sent(self, lane_id: int, first: int, end: int) -> bool:
        """Whether the process may know of offsets `[first, end)`: it was given records between them."""
        from_offset, to_offset, count = self._sent.get(lane_id, (0, 0, 0))
        return from_offset <= first < end <= to_offset and end - first <= count

    def settle_before(self, seq: int) -> Iterator[tuple[Lane, Sequence[WireRecord]]]:
        """Take out all records before `seq`, which have the same outcome, run by run."""
        while self.runs and self.runs[0].first_seq < seq:
            run = self.runs[0]
            done = run.records[: seq - run.first_seq]
            self._drop(run, len(done))
            yield run.lane, done

    def take_failed(self, end: int) -> list[tuple[Lane, Sequence[WireRecord]]]:
        """Take out all records before `end`, lane by lane: those of one lane failed together."""
        of_lanes = groupby(list(self.settle_before(end)), key=itemgetter(0))
        return [(lane, _joined([records for _, records in of_one])) for lane, of_one in of_lanes]

    def take(self, seq: int) -> tuple[Lane, Sequence[WireRecord]] | None:
        """Take out record `seq`; None if it isn't the first in flight, or, if they overlap, of its run."""
        run = self._run_by_seq.get(seq) if self.overlaps else self.runs[0] if self.runs else None
        # A lane ends its records in order, so one that is not the first of its run is a lie.
        if run is None or run.first_seq != seq:
            return None
        self._run_by_seq.pop(seq, None)
        record = run.records[:1]
        self._drop(run, 1)
        return run.lane, record

    def take_started(self, seq: int) -> list[Run]:
        """Take out the record, or the batch, that was being handled when `seq` ran.

        Return nothing if it isn't here: the process died after it had sent the outcome, and before its
        slot moved on.
        """
        # A batch is one call of the handler: all of it had started.
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

        Raises ProtocolViolationError for others than the tail of a run, and for records that the worker has
        no reason to give back: without that check it could be given its records for ever.
        """
        # The worker gives back from behind: records before have been handled, or one of them is being.
        run = next((run for run in self.runs if run.first_seq <= first < run.end_seq == end), None)
        if run is None or not run.may_be_returned:
            raise ProtocolViolationError(f"it gives back records {first} to {end}")
        keep = first - run.first_seq
        returned = run.records[keep : end - run.first_seq]
        run.records = run.records[:keep]
        self._count -= len(returned)
        for seq in range(first, end) if self.overlaps else ():
            del self._run_by_seq[seq]
        if not keep:
            self._remove(run)
        return run.lane, returned

    def take_all(self) -> Sequence[Run]:
        """Take out all records that are left."""
        runs, self.runs, self._count = self.runs, deque(), 0
        self._run_by_seq.clear()
        self._run_counts.clear()
        return runs

    def find(self, seq: int) -> tuple[Lane, WireRecord] | None:
        """Return record `seq`, and leave it where it is."""
        run = self._run_at(seq)
        return None if run is None else (run.lane, run.records[seq - run.first_seq])

    def running(self, slot: ProgressSlot) -> list[RunningRecord]:
        """Return the records that run by the slot, by seq, without those whose outcome has come."""
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
            return self._run_by_seq.get(seq)
        return next((run for run in self.runs if run.first_seq <= seq < run.end_seq), None)

    def _drop(self, run: Run, count: int) -> None:
        # PROGRESS says how long its records took, and not of which lane: the last one that it settles.
        self.last_lane = run.lane
        self._count -= count
        if count == len(run.records):
            self._remove(run)
        else:
            run.records = run.records[count:]
            run.first_seq += count

    def _remove(self, run: Run) -> None:
        # The first one, unless they overlap.
        self.runs.remove(run)
        if self.overlaps:
            left = self._run_counts.pop(run.lane.id) - 1
            if left:
                self._run_counts[run.lane.id] = left


def _joined(parts: Sequence[Sequence[WireRecord]]) -> Sequence[WireRecord]:
    return parts[0] if len(parts) == 1 else [record for part in parts for record in part]

"""Which records a worker holds: the processor's side of the wire's sequence numbers. Pure."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.runtime.partition import AssignedPartition
from headrace.runtime.wire import RunHeader, WireRecord


@dataclass(slots=True)
class Run:
    """Consecutive records of one partition at one worker; record i has seq `first_seq + i`."""

    partition: AssignedPartition
    first_seq: int
    records: Sequence[WireRecord]

    @property
    def end_seq(self) -> int:
        """The seq after its last record."""
        return self.first_seq + len(self.records)


class InFlight:
    """Runs in the order in which the worker gets to them."""

    def __init__(self) -> None:
        self.runs: deque[Run] = deque()
        self._next_seq = 0

    def __len__(self) -> int:
        """How many records."""
        return sum(len(run.records) for run in self.runs)

    def add(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> RunHeader:
        """Records are about to be sent; the header to send them under."""
        first_seq = self._next_seq
        self._next_seq += len(records)
        self.runs.append(Run(partition, first_seq, records))
        return RunHeader(partition.id, partition.epoch, first_seq, partition.attempt, len(records))

    def settle_before(self, seq: int) -> Iterator[tuple[AssignedPartition, Sequence[WireRecord]]]:
        """Take out what lies before `seq`: all of that has succeeded."""
        while self.runs and self.runs[0].first_seq < seq:
            run = self.runs[0]
            done = run.records[: seq - run.first_seq]
            self._drop(run, len(done))
            yield run.partition, done

    def take(self, seq: int) -> tuple[AssignedPartition, WireRecord] | None:
        """Take out record `seq`, which must be the first in flight; None where it isn't in flight."""
        if not self.runs or self.runs[0].first_seq != seq:
            return None
        run = self.runs[0]
        record = run.records[0]
        self._drop(run, 1)
        return run.partition, record

    def take_back(self, first: int, end: int) -> tuple[AssignedPartition, Sequence[WireRecord]]:
        """Take out the records of `[first, end)`: the tail of one run, or a whole one."""
        run = next(run for run in self.runs if run.first_seq <= first < run.end_seq)
        keep = first - run.first_seq
        returned = run.records[keep : end - run.first_seq]
        run.records = run.records[:keep]
        if not keep:
            self.runs.remove(run)
        return run.partition, returned

    def find(self, seq: int) -> tuple[AssignedPartition, WireRecord] | None:
        """Record `seq`, left where it is."""
        for run in self.runs:
            if run.first_seq <= seq < run.end_seq:
                return run.partition, run.records[seq - run.first_seq]
        return None

    def _drop(self, run: Run, count: int) -> None:
        if count == len(run.records):
            self.runs.popleft()
        else:
            run.records = run.records[count:]
            run.first_seq += count

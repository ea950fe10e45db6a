"""A worker handle without a process: it holds what a test says, and keeps what it is told."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from headrace.runtime.partitions.chunk import Chunk
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.in_flight import InFlight, RunningRecord


@dataclass
class StandingWorker:
    """It is in the first record that it holds, since `since_ns`; None: it has just begun."""

    index: int = 0
    is_ready: bool = True
    seats: int = 1
    since_ns: int | None = None
    in_flight: InFlight = field(default_factory=InFlight)
    is_loop_held_up: bool = False
    unsuited: set[int] = field(default_factory=set)
    begun: set[int] = field(default_factory=set)
    spark_session_id: str = ""
    looks: int = 0
    recalled: list[Lane] = field(default_factory=list)
    sent: list[tuple[Lane, list[int]]] = field(default_factory=list)

    @property
    def handle(self) -> WorkerHandle:
        """What those under test take it for."""
        return cast(WorkerHandle, self)

    @property
    def sender(self) -> "StandingWorker":
        """It is its own."""
        return self

    @property
    def is_straggling(self) -> bool:
        return self.in_flight.is_straggling

    @property
    def takes_more(self) -> bool:
        return self.is_ready and not self.is_straggling

    def running(self) -> list[RunningRecord]:
        self.looks += 1
        if not self.in_flight.runs:
            return []
        run = self.in_flight.runs[0]
        since_ns = time.monotonic_ns() if self.since_ns is None else self.since_ns
        return [RunningRecord(run.first_seq, run.lane, run.records[0], since_ns)]

    def recall(self, lane: Lane) -> None:
        self.recalled.append(lane)

    def suits(self, lane: Lane) -> bool:
        return lane.id not in self.unsuited

    def send(self, lane: Lane, records: list[WireRecord]) -> None:
        self.sent.append((lane, [record.offset for record in records]))
        self.in_flight.add(lane, records)

    def has_begun(self, chunk: Chunk) -> bool:
        return chunk.id in self.begun

    def send_batch(self, parts: Sequence[tuple[Lane, Sequence[WireRecord]]]) -> None:
        first = self.in_flight.next_seq
        batch = range(first, first + sum(len(records) for _, records in parts))
        for lane, records in parts:
            self.sent.append((lane, [record.offset for record in records]))
            self.in_flight.add(lane, records, batch)

    def hold_batch(self, partition: AssignedPartition) -> None:
        """The first two records of it."""
        self.send_batch([(partition.lane, records) for records in partition.lane.take_batch(2)])
        self.sent.clear()

    def hold(self, *partitions: AssignedPartition) -> None:
        """A record of each, in this order."""
        for partition in partitions:
            self.in_flight.add(partition.lane, partition.lane.take(1, 1 << 20))

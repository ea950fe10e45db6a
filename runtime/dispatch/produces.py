"""Messages that handlers produce: no record is committed before all of its own are confirmed."""

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial

from headrace.runtime.dispatch.acks.nacks import Nacks
from headrace.runtime.dispatch.interface import Written
from headrace.runtime.dispatch.shared import Shared
from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.partitions.books.failed_records import FailedRecord
from headrace.runtime.partitions.books.held import Call, Held
from headrace.runtime.partitions.books.unacked import NOBODY
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire.produce import Produce, Produced, encode_produced
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.outbox import Outbox


class Produces:
    """Of one dispatcher. Sends them on at once; what can't be written has its record fail, done or not.

    A record that goes well is settled as any other, and those behind it go on. It is only not committed.
    """

    def __init__(self, shared: Shared, nacks: Nacks) -> None:
        self._shared = shared
        self._nacks = nacks
        self._said: dict[Outbox, list[Produced]] = {}  # to be told at the end of this turn of the loop

    def take(self, worker: WorkerHandle, lane: Lane | None, said: Produce) -> None:
        """One of the worker's handlers has produced it, for a record of `lane`; None where that is over."""
        partition = None if lane is None else self._shared.partition_of(lane)
        call = Call() if partition is None else self._call(worker, partition, said.offset)
        call.open += 1
        done = partial(self._on_done, worker.outbox, call, said.number)
        self._shared.feed.produce(said.message, done)

    def on_returned(self, partition: AssignedPartition, firsts: Iterable[int]) -> None:
        """These are to be handled again, and will produce again: what they have produced says no more."""
        for first in firsts:
            partition.held.pop(first, None)

    # ---- inside

    def _call(self, worker: WorkerHandle, partition: AssignedPartition, offset: int) -> Call:
        """That the record is in. What is settled already belongs to none: its commit may be on its way."""
        first = partition.acked_by(offset)
        if first is None or partition.ledger.is_settled(first):
            return Call()
        if (held := partition.held.get(first)) is not None:
            return held.call
        call = Call()
        for each, begin, end in self._records(worker, partition, first):
            failed = each.failed.of(begin) if each.failed else None
            each.held[begin] = Held(call, end, 0 if failed is None else failed.failures)
            call.records.append((each, begin))
        return call

    def _records(
        self, worker: WorkerHandle, partition: AssignedPartition, first: int
    ) -> Iterator[tuple[AssignedPartition, int, int]]:
        """All of that call: a batch, or one."""
        if not worker.in_flight.batch_size or first in partition.unacked:
            yield partition, first, partition.unacked.end_of(first)
            return
        for run in worker.in_flight.runs:
            if (of_run := self._shared.partition_of(run.lane)) is not None:
                for begin, record in zip(run.lane.first_offsets(run.records), run.records, strict=True):
                    yield of_run, begin, record.offset + 1

    def _on_done(self, outbox: Outbox, call: Call, number: int, written: Written) -> None:
        """It is written, or can't be."""
        if not self._said:
            asyncio.get_running_loop().call_soon(self._tell)
        self._said.setdefault(outbox, []).append(Produced(number, *written))
        metrics = self._shared.metrics
        (metrics.not_produced if written.failure else metrics.produced).inc()
        call.open -= 1
        call.failure = call.failure or written.failure
        if not call.open:
            self._release(call)

    def _tell(self) -> None:
        """What became of them, in one frame for each worker."""
        said, self._said = self._said, {}
        for outbox, each in said.items():
            outbox.send_frame(encode_produced(each))
            outbox.flush()

    def _release(self, call: Call) -> None:
        """Nothing that it has produced is on its way."""
        for partition, first in call.records:
            held = partition.held.get(first)
            if held is not None and held.call is call:  # else it came again, or its partition has left
                del partition.held[first]
                is_here = self._shared.partitions.get(partition.lane.id) is partition
                if call.failure and is_here:
                    self._fail(partition, first, held)
        self._shared.news.set()

    def _fail(self, partition: AssignedPartition, first: int, held: Held) -> None:
        if first in partition.unacked:
            self._nacks.fail(partition, first, held.call.failure)
        elif partition.ledger.is_settled(first):
            _reopen(partition, first, held)
            self._nacks.fail(partition, first, held.call.failure)
        else:
            partition.nacked[first] = held.call.failure  # once its handler has returned


def _reopen(partition: AssignedPartition, first: int, held: Held) -> None:
    """It went well, and is to be handled again: until then it waits as for an ack that nobody will say."""
    partition.ledger.reopen(first, held.end)
    partition.unacked.add([first], NOBODY)
    if partition.lane.buffer.holds_ranges:
        partition.unacked.add_ends([(first, held.end)])
    if held.failures:
        partition.failed[first] = FailedRecord(held.failures)

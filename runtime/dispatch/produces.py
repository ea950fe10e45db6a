"""Messages that handlers produce: no record is committed before all of its own are written."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from headrace.runtime.dispatch.acks.nacks import Nacks
from headrace.runtime.dispatch.shared import Shared
from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.partitions.books.failed_records import FailedRecord
from headrace.runtime.partitions.books.held import Call, Confirm, Held, Written
from headrace.runtime.partitions.books.unacked import NOBODY
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.loose_lane import LooseLane
from headrace.runtime.wire.frames import WireRecord
from headrace.runtime.wire.produce import Message, Produce, Produced, encode_produced
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.outbox import Outbox

_MOST_OUTGOING_BYTES = 16 << 20


class Produces:
    """Of one dispatcher. Sends them on, or keeps them for the commit of their record; failed ones fail it.

    A record that goes well is settled as any other, and those behind it go on. It is only not committed.
    """

    def __init__(self, shared: Shared, nacks: Nacks, dispatch: Callable[[], None]) -> None:
        self._shared = shared
        self._nacks = nacks
        self._dispatch = dispatch
        self._holds_up = False
        self.on_failed: Callable[[Lane, Sequence[WireRecord], str, int], None]
        """As RecordListener says, of a record that isn't handled in order. Its owner sets it."""
        self._said: dict[Outbox, list[Produced]] = {}  # to be told at the end of this turn of the loop

    def holds_up(self) -> bool:
        """Whether too much waits for a commit: then nothing more is handed out, until it says so itself."""
        if not self._shared.policy.exactly_once:
            return False
        held = (partition.held.outgoing_bytes for partition in self._shared.partitions.values())
        self._holds_up = sum(held) > _MOST_OUTGOING_BYTES
        return self._holds_up

    def take(self, worker: WorkerHandle, lane: Lane | None, said: Produce) -> None:
        """One of the worker's handlers has produced it, for a record of `lane`; None where that is over."""
        partition = None if lane is None else self._shared.partition_of(lane)
        call = Call()
        if lane is not None and partition is not None:
            call = self._call(worker, lane, partition, said.offset)
        tell = partial(self._tell, worker.outbox, said.number)
        if self._shared.policy.exactly_once and partition and call.records and not said.message.output:
            call.outgoing.append((said.message, partial(self._on_committed, call)))
            partition.held.outgoing_bytes += said.message.size_bytes
            tell(Written())  # its worker may produce more
        else:
            call.open += 1
            self._send(said.message, partial(self._on_done, call, tell))

    def on_returned(self, partition: AssignedPartition, firsts: Iterable[int]) -> None:
        """These are to be handled again, and will produce again: what they have produced says no more."""
        for first in firsts:
            if not partition.ledger.is_settled(first):  # else they were acked, and are over
                partition.held.drop(first)

    # ---- inside

    def _call(self, worker: WorkerHandle, lane: Lane, partition: AssignedPartition, offset: int) -> Call:
        """That the record is in. What is settled already belongs to none: its commit may be on its way."""
        first = partition.acked_by(offset)
        if first is None or partition.ledger.is_settled(first):
            return Call()
        if (held := partition.held.get(first)) is not None:
            return held.call
        call = Call()
        record = _find(worker, lane, offset) if partition.is_loose else None
        for each, begin, end in self._records(worker, partition, first):
            failed = each.failed.of(begin) if each.failed else None
            each.held[begin] = Held(call, end, 0 if failed is None else failed.failures, record)
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

    def _send(self, message: Message, done: Confirm) -> None:
        """To the output that it names, which is never the trigger's own brokers."""
        if not message.output:
            self._shared.feed.produce(message, done)
        elif (output := self._shared.outputs.get(message.output)) is not None:
            output.produce(message, done)
        else:  # its worker would have known
            failure = f"the function has no output {message.output}"
            asyncio.get_running_loop().call_soon(done, Written(failure=failure))

    def _on_done(self, call: Call, tell: Callable[[Written], None], written: Written) -> None:
        """It is written, or can't be."""
        tell(written)
        self._count(written)
        call.open -= 1
        call.failure = call.failure or written.failure
        if not call.open and (call.failure or not call.outgoing):
            self._release(call)

    def _on_committed(self, call: Call, written: Written) -> None:
        """It is written with the commit of its record, or kept it from being written."""
        self._count(written)
        call.failure = call.failure or written.failure
        if call.outgoing and not call.open:  # all of a call go together: the first one says it for all
            self._release(call)

    def _count(self, written: Written) -> None:
        metrics = self._shared.metrics
        (metrics.not_produced if written.failure else metrics.produced).inc()

    def _tell(self, outbox: Outbox, number: int, written: Written) -> None:
        """What became of it, at the end of this turn."""
        if not self._said:
            asyncio.get_running_loop().call_soon(self._tell_all)
        self._said.setdefault(outbox, []).append(Produced(number, *written))

    def _tell_all(self) -> None:
        """In one frame for each worker."""
        said, self._said = self._said, {}
        for outbox, each in said.items():
            outbox.send_frame(encode_produced(each))
            outbox.flush()

    def _release(self, call: Call) -> None:
        """Nothing that it has produced is to be written any more."""
        for partition, first in call.records:
            held = partition.held.get(first)
            if held is not None and held.call is call:  # else it came again, or its partition has left
                partition.held.drop(first)
                is_here = self._shared.partitions.get(partition.lane.id) is partition
                if call.failure and is_here:
                    self._fail(partition, first, held)
        self._shared.news.set()
        if self._holds_up and not self.holds_up():
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _fail(self, partition: AssignedPartition, first: int, held: Held) -> None:
        if first in partition.unacked:
            self._nacks.fail(partition, first, held.call.failure)
        elif not partition.ledger.is_settled(first):
            partition.nacked[first] = held.call.failure  # once its handler has returned
        else:
            self._undo(partition, first, held)

    def _undo(self, partition: AssignedPartition, first: int, held: Held) -> None:
        """It went well, and has failed."""
        partition.ledger.reopen(first, held.end)
        if held.failures:
            partition.failed[first] = FailedRecord(held.failures)
        if held.record is not None and isinstance(partition.lane, LooseLane):
            lane = partition.lane.lane_of(held.record)
            lane.take_again(held.record)
            self.on_failed(lane, [held.record], held.call.failure, 1)
        else:
            _wait_as_unacked(partition, first, held.end)
            self._nacks.fail(partition, first, held.call.failure)


def _find(worker: WorkerHandle, lane: Lane, offset: int) -> WireRecord | None:
    runs = (run for run in worker.in_flight.runs if run.lane.whole is lane.whole)  # of whichever key
    return next((record for run in runs for record in run.records if record.offset == offset), None)


def _wait_as_unacked(partition: AssignedPartition, first: int, end: int) -> None:
    """For an ack that nobody will say: it comes again by a fetch, with all that is open."""
    partition.unacked.add([first], NOBODY)
    if partition.lane.buffer.holds_ranges:
        partition.unacked.add_ends([(first, end)])

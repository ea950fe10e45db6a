"""Messages that handlers produce: no record is committed before all of its own are written."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from headrace.runtime.dispatch.redelivery import Redelivery
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.partitions.keyed import KeyedLanes
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.offsets.awaiting_ack import NOBODY
from headrace.runtime.partitions.offsets.pending_produces import (
    DeliveryCallback,
    DeliveryReport,
    HandlerCall,
    PendingRecord,
    Unwritten,
)
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.produce import WAITING, Message, ProduceRequest, Said, encode_produced, place_name
from headrace.runtime.wire.records import ProtocolViolationError, WireRecord
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.sender import FrameSender

_MOST_OUTGOING_BYTES = _MOST_WAITING_BYTES = 16 << 20


class ProduceTracker:
    """Of one dispatcher. Sends them on, or keeps them for the commit of their record; failed ones fail it.

    A record that goes well is settled as any other, and those behind it go on. It is only not committed.
    """

    def __init__(self, shared: DispatcherState, nacks: Redelivery, dispatch: Callable[[], None]) -> None:
        self._shared = shared
        self._nacks = nacks
        self._dispatch = dispatch
        self._holds_up = False
        self.on_failed: Callable[[Lane, Sequence[WireRecord], str, int], None]
        """As RecordListener says, of a record that isn't handled in order. Its owner sets it."""
        # What waits where nothing can be written, and counts no more to its worker's bound:
        self._waiting: dict[tuple[FrameSender, int], int] = {}
        self._waiting_bytes = 0
        # For the end of this turn of the loop:
        self._said: dict[FrameSender, list[Said]] = {}
        self._written = self._not_written = 0
        self._is_turn_noted = False

    def holds_up(self) -> bool:
        """Whether too much waits for a commit: then nothing more is handed out, until it says so itself."""
        if not self._shared.policy.exactly_once:
            return False
        held = (partition.held.outgoing_bytes for partition in self._shared.partitions.values())
        self._holds_up = sum(held) > _MOST_OUTGOING_BYTES
        return self._holds_up

    def take(self, worker: WorkerHandle, lane: Lane | None, said: ProduceRequest) -> None:
        """One of the worker's handlers has produced it, for a record of `lane`; None where that is over.

        Raises ProtocolViolationError for what it may not be sent to.
        """
        partition = None if lane is None else self._shared.partition_of(lane)
        message, topics = said.message, self._shared.policy.produce_topics
        if (
            topics is not None and (message.output, message.topic) not in topics
        ):  # its worker would have known
            raise ProtocolViolationError(
                f"it produces for {place_name(message)}, which spec.produceTopics doesn't have"
            )
        if lane is None or partition is None:
            call = HandlerCall()
        else:
            call = self._call(worker, lane, partition, said.offset)
        if self._shared.policy.exactly_once and partition and call.records and not message.output:
            call.keep(message, partial(self._on_committed, call))
            partition.held.outgoing_bytes += message.size_bytes
            self._tell(worker.outbox, said.number, DeliveryReport())  # it may produce more
        else:
            call.open += 1
            self._send(message, partial(self._on_done, call, worker.outbox, said.number))

    def on_returned(self, partition: AssignedPartition, firsts: Iterable[int]) -> None:
        """These are to be handled again, and will produce again."""
        for first in firsts:
            if not partition.ledger.is_settled(first):  # else they were acked, and are over
                partition.held.let_go(first)

    # ---- inside

    def _call(
        self, worker: WorkerHandle, lane: Lane, partition: AssignedPartition, offset: int
    ) -> HandlerCall:
        """That the record is in. What is settled already belongs to none: its commit may be on its way."""
        first = partition.acked_by(offset)
        if first is None:
            return HandlerCall()
        may_be_of_batch = bool(worker.in_flight.batch) and first not in partition.unacked
        if partition.ledger.is_settled(first):  # by an ack: others of its batch may not be
            is_of_batch = may_be_of_batch and _find(worker, lane, offset) is not None
            return self._call_of_batch(worker) if is_of_batch else HandlerCall()
        if (held := partition.held.get(first)) is not None:
            return held.call
        if may_be_of_batch:
            return self._call_of_batch(worker)
        call = HandlerCall()
        record = _find(worker, lane, offset) if partition.is_loose else None
        call.records = (_hold(partition, first, partition.unacked.end_of(first), call, record),)
        return call

    def _call_of_batch(self, worker: WorkerHandle) -> HandlerCall:
        """All of it that isn't settled, held by one call."""
        left = [it for it in self._batch(worker) if not it[0].ledger.is_settled(it[1])]
        for partition, first, _ in left:
            if (held := partition.held.get(first)) is not None:
                return held.call
        call = HandlerCall()
        call.records = [_hold(*it, call) for it in left]
        return call

    def _batch(self, worker: WorkerHandle) -> Iterator[tuple[AssignedPartition, int, int]]:
        running = worker.in_flight.batch
        for run in worker.in_flight.runs:
            if run.batch == running and (partition := self._shared.partition_of(run.lane)):
                for first, record in zip(run.lane.first_offsets(run.records), run.records, strict=True):
                    yield partition, first, record.offset + 1

    def _send(self, message: Message, done: DeliveryCallback) -> None:
        """To the output that it names, which is never the trigger's own brokers."""
        if not message.output:
            self._shared.feed.produce(message, done)
        elif (output := self._shared.outputs.get(message.output)) is not None:
            output.produce(message, done)
        else:  # its worker would have known
            failure = f"the function has no output {message.output}"
            asyncio.get_running_loop().call_soon(done, DeliveryReport(failure=failure))

    def _on_done(self, call: HandlerCall, outbox: FrameSender, number: int, written: DeliveryReport) -> None:
        """It is written, or can't be; or it waits."""
        if written.partition == WAITING:
            self._wait(call)
            self._take_over(outbox, number, written.offset)
            return
        if self._waiting and (size_bytes := self._waiting.pop((outbox, number), 0)):
            self._waiting_bytes -= size_bytes
        self._tell(outbox, number, written)
        self._count(written)
        call.open -= 1
        call.failure = call.failure or written.failure
        if not call.open and (call.failure or not call.outgoing):
            self._release(call)

    def _on_committed(self, call: HandlerCall, written: DeliveryReport) -> None:
        """It is written with the commit of its record, or kept it from being written; or it waits."""
        if written.partition == WAITING:
            self._wait(call)
            return
        self._count(written)
        call.failure = call.failure or written.failure
        if call.outgoing and not call.open:  # all of a call go together: the first one says it for all
            self._release(call)

    def _count(self, written: DeliveryReport) -> None:
        if written.failure:
            self._not_written += 1
        else:
            self._written += 1
        self._note_turn()

    def _tell(self, outbox: FrameSender, number: int, written: DeliveryReport) -> None:
        """What became of it, at the end of this turn."""
        if (said := self._said.get(outbox)) is None:
            said = self._said[outbox] = []
        said.append((number, *written))
        self._note_turn()

    def _note_turn(self) -> None:
        if not self._is_turn_noted:
            self._is_turn_noted = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        """Counts, and tells each worker in one frame."""
        self._is_turn_noted = False
        self._shared.metrics.produced.inc(self._written)
        self._shared.metrics.not_produced.inc(self._not_written)
        self._written = self._not_written = 0
        said, self._said = self._said, {}
        for outbox, each in said.items():
            outbox.send_frame(encode_produced(each))
            outbox.flush()

    def _wait(self, call: HandlerCall) -> None:
        """No record follows in its partitions: each would only wait for the same, or be stopped amid that."""
        if call.waits:
            return
        call.waits = True
        for partition, first in call.records:
            is_first = not partition.held.wait_count
            partition.held.note_waits(first, call)
            if is_first and not self._shared.policy.batch:
                for lane in partition.lane.parts:
                    if lane.in_flight_count and lane.worker_index is not None:
                        self._shared.workers[lane.worker_index].recall(lane)

    def _take_over(self, outbox: FrameSender, number: int, size_bytes: int) -> None:
        """It counts no more to its worker's bound, as far as there is room: a handler would wait in vain."""
        place = outbox, number
        if place not in self._waiting and self._waiting_bytes + size_bytes <= _MOST_WAITING_BYTES:
            self._waiting[place] = size_bytes
            self._waiting_bytes += size_bytes
            self._tell(outbox, number, DeliveryReport(WAITING))

    def _release(self, call: HandlerCall) -> None:
        """Nothing that it has produced is to be written any more."""
        for partition, first in call.records:
            held = partition.held.get(first)
            if held is None or held.call is not call:
                continue  # it came again
            if call.failure and not self._is_here(partition):
                continue  # it has left: its last commit may still be to come, and must not cover the record
            partition.held.drop(first)
            if call.failure:
                self._fail(partition, first, held)
        self._shared.news.set()
        if call.waits:
            for partition in {partition for partition, _ in call.records if not partition.held.wait_count}:
                self._shared.offer_again(partition.lane)
            asyncio.get_running_loop().call_soon(self._dispatch)
        if self._holds_up and not self.holds_up():
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _is_here(self, partition: AssignedPartition) -> bool:
        return self._shared.partitions.get(partition.lane.id) is partition

    def _fail(self, partition: AssignedPartition, first: int, held: PendingRecord) -> None:
        """A message of its last delivery can't be written: whatever has settled the record is void.

        Of a batch any record may be to blame.
        """
        partition.unwritten[first] = Unwritten.WAITS
        is_settled, why = partition.ledger.is_settled(first), (held.call.failure, len(held.call.records))
        if is_settled:
            partition.take_back(first, held.end, held.failures)
        if first in partition.unacked:
            self._nacks.fail(partition, first, *why)
        elif self._is_in_flight(partition, held.end - 1):
            partition.nacked[first] = why  # once its handler has returned
        elif partition.lane.state is PartitionState.REVOKED:
            self._nacks.fail(partition, first, *why)  # its next owner tries it again
        elif is_settled:
            self._bring_again(partition, first, held)

    def _is_in_flight(self, partition: AssignedPartition, offset: int) -> bool:
        return any(_find(worker, partition.lane, offset) for worker in self._shared.workers)

    def _bring_again(self, partition: AssignedPartition, first: int, held: PendingRecord) -> None:
        """It went well, has failed, and waits nowhere."""
        if held.record is not None and isinstance(partition.lane, KeyedLanes):
            part = partition.lane.lane_of(held.record)
            part.take_again(held.record)
            self.on_failed(part, [held.record], held.call.failure, 1)
        else:
            _wait_as_unacked(partition, first, held.end)
            self._nacks.fail(partition, first, held.call.failure, len(held.call.records))


def _hold(
    partition: AssignedPartition, first: int, end: int, call: HandlerCall, record: WireRecord | None = None
) -> tuple[AssignedPartition, int]:
    failed = partition.failed.of(first) if partition.failed else None
    partition.held[first] = PendingRecord(call, end, 0 if failed is None else failed.failures, record)
    return partition, first


def _find(worker: WorkerHandle, lane: Lane, offset: int) -> WireRecord | None:
    runs = (run for run in worker.in_flight.runs if run.lane.whole is lane.whole)  # of whichever key
    return next((record for run in runs for record in run.records if record.offset == offset), None)


def _wait_as_unacked(partition: AssignedPartition, first: int, end: int) -> None:
    """For an ack that nobody will say: it comes again by a fetch, with all that is open."""
    partition.unacked.add([first], NOBODY)
    if partition.lane.buffer.holds_ranges:
        partition.unacked.add_ends([(first, end)])

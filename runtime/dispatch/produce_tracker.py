"""Messages that handlers produce: no record is committed before all of its own are written.

docs/design/produce.md says why it is done here and not in the workers.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from headrace.runtime.dispatch.redelivery import Redelivery
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.partitions.keyed import KeyedLanes
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.offsets.awaiting_ack import NOBODY
from headrace.runtime.partitions.offsets.pending_produces import HandlerCall, PendingRecord
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.framing import ProtocolViolationError
from headrace.runtime.wire.produce import (
    WAITING,
    DeliveryCallback,
    DeliveryReport,
    Message,
    ProduceRequest,
    RawProduceResult,
    encode_produced,
    place_name,
)
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.sender import FrameSender

# As much as sixteen workers may have on their way, by the bound of 1 MiB that each has.
_MAX_OUTGOING_BYTES = _MAX_WAITING_BYTES = 16 << 20


class ProduceTracker:
    """Sends the messages of one dispatcher's handlers on, or keeps them for the commit of their record.

    A message that can't be written fails its record. A record that succeeds is settled as any other, and
    those behind it go on: it is only held back from commits until its messages are written.
    """

    def __init__(
        self,
        state: DispatcherState,
        redelivery: Redelivery,
        dispatch: Callable[[], None],
        on_failed: Callable[[Lane, Sequence[WireRecord], str, int], None],
    ) -> None:
        """`on_failed` fails a record of a lane whose order is loose, as WorkerListener.on_failed does."""
        self._state = state
        self._redelivery = redelivery
        self._dispatch = dispatch
        self._on_failed = on_failed
        self._is_held_up = False
        # Messages that wait as nothing can be written now: sizes by sender and number. They count no more
        # against the bound of their worker, or a handler would stand in `produce` until eventTimeout.
        self._waiting: dict[tuple[FrameSender, int], int] = {}
        self._waiting_bytes = 0
        # Collected for the end of this turn of the loop, when each worker is told in one frame:
        self._reports: dict[FrameSender, list[RawProduceResult]] = {}
        self._written = self._not_written = 0
        self._is_turn_noted = False

    def is_held_up(self) -> bool:
        """Whether too much waits for a commit to hand out more. `dispatch` is called once that is over.

        Only with exactlyOnce. Hand-out pauses, not the handlers: only their return can settle what is kept.
        """
        if not self._state.policy.exactly_once:
            return False
        held = (partition.pending.outgoing_bytes for partition in self._state.partitions.values())
        self._is_held_up = sum(held) > _MAX_OUTGOING_BYTES
        return self._is_held_up

    def take(self, worker: WorkerHandle, lane: Lane | None, said: ProduceRequest) -> None:
        """Send on, or keep, a message of one of the worker's handlers, for a record of `lane`.

        `lane` is None if it is over. Raises ProtocolViolationError for a topic that isn't in
        spec.produceTopics: the worker refuses that first, but workers aren't trusted.
        """
        partition = None if lane is None else self._state.partition_of(lane)
        message, topics = said.message, self._state.policy.produce_topics
        if topics is not None and (message.output, message.topic) not in topics:
            raise ProtocolViolationError(
                f"it produces for {place_name(message)}, which spec.produceTopics doesn't have"
            )
        if lane is None or partition is None:
            call = HandlerCall()
        else:
            call = self._call_of(worker, lane, partition, said.offset)
        if self._state.policy.exactly_once and partition and call.records and not message.output:
            call.keep(message, partial(self._on_committed, call))
            partition.pending.outgoing_bytes += message.size_bytes
            # At once, so that the worker's bound takes it as written and the handler may produce more.
            self._report(worker.sender, said.number, DeliveryReport())
        else:
            call.open += 1
            self._send(message, partial(self._on_done, call, worker.sender, said.number))

    def on_returned(self, partition: AssignedPartition, firsts: Iterable[int]) -> None:
        """Void the messages that these records have for a commit: they are handled, and produce, again."""
        for first in firsts:
            if not partition.ledger.is_settled(first):  # what was acked meanwhile isn't handled again
                partition.pending.let_go(first)

    # ---- inside

    def _call_of(
        self, worker: WorkerHandle, lane: Lane, partition: AssignedPartition, offset: int
    ) -> HandlerCall:
        """Return the call that the record at `offset` is in.

        A settled record is held by no call: its commit may be on its way.
        """
        first = partition.acked_by(offset)
        if first is None:
            return HandlerCall()
        may_be_of_batch = bool(worker.in_flight.batch) and first not in partition.awaiting_ack
        if partition.ledger.is_settled(first):  # by an ack: others of its batch may not be
            is_of_batch = may_be_of_batch and _find(worker, lane, offset) is not None
            return self._call_of_batch(worker) if is_of_batch else HandlerCall()
        if (held := partition.pending.get(first)) is not None:
            return held.call
        if may_be_of_batch:
            return self._call_of_batch(worker)
        call = HandlerCall()
        record = _find(worker, lane, offset) if partition.lane.is_keyed else None
        call.records = (_hold(partition, first, partition.awaiting_ack.end_of(first), call, record),)
        return call

    def _call_of_batch(self, worker: WorkerHandle) -> HandlerCall:
        """Return the one call that holds all records of the worker's batch that aren't settled."""
        left = [it for it in self._batch(worker) if not it[0].ledger.is_settled(it[1])]
        for partition, first, _ in left:
            if (held := partition.pending.get(first)) is not None:
                return held.call
        call = HandlerCall()
        call.records = [_hold(*it, call) for it in left]
        return call

    def _batch(self, worker: WorkerHandle) -> Iterator[tuple[AssignedPartition, int, int]]:
        """Yield the records of the batch that the worker is in: partition, first offset and end."""
        running = worker.in_flight.batch
        for run in worker.in_flight.runs:
            if run.batch == running and (partition := self._state.partition_of(run.lane)):
                for first, record in zip(run.lane.first_offsets(run.records), run.records, strict=True):
                    yield partition, first, record.offset + 1

    def _send(self, message: Message, done: DeliveryCallback) -> None:
        """Hand a message to the output that it names, or to the trigger's own brokers if it names none."""
        if not message.output:
            self._state.feed.produce(message, done)
        elif (output := self._state.outputs.get(message.output)) is not None:
            output.produce(message, done)
        else:  # the worker refuses that first
            failure = f"the function has no output {message.output}"
            asyncio.get_running_loop().call_soon(done, DeliveryReport(failure=failure))

    def _on_done(self, call: HandlerCall, outbox: FrameSender, number: int, written: DeliveryReport) -> None:
        """Take in that a message is written, can't be, or waits until its target can be written to."""
        if written.partition == WAITING:
            self._wait(call)
            self._take_over(outbox, number, written.offset)
            return
        if self._waiting and (size_bytes := self._waiting.pop((outbox, number), 0)):
            self._waiting_bytes -= size_bytes
        self._report(outbox, number, written)
        self._count(written)
        call.open -= 1
        call.failure = call.failure or written.failure
        if not call.open and (call.failure or not call.outgoing):
            self._release(call)

    def _on_committed(self, call: HandlerCall, written: DeliveryReport) -> None:
        """Take in what became of a message that went with a commit: written, refused, or it waits."""
        if written.partition == WAITING:
            self._wait(call)
            return
        self._count(written)
        call.failure = call.failure or written.failure
        # All messages of a call go together, so the first report speaks for all.
        if call.outgoing and not call.open:
            self._release(call)

    def _count(self, written: DeliveryReport) -> None:
        if written.failure:
            self._not_written += 1
        else:
            self._written += 1
        self._note_turn()

    def _report(self, outbox: FrameSender, number: int, written: DeliveryReport) -> None:
        """Tell the worker what became of its message, at the end of this turn of the loop."""
        if (said := self._reports.get(outbox)) is None:
            said = self._reports[outbox] = []
        said.append((number, *written))
        self._note_turn()

    def _note_turn(self) -> None:
        if not self._is_turn_noted:
            self._is_turn_noted = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        """Count what this turn has reported, and tell each worker in one frame."""
        self._is_turn_noted = False
        self._state.metrics.produced.inc(self._written)
        self._state.metrics.not_produced.inc(self._not_written)
        self._written = self._not_written = 0
        said, self._reports = self._reports, {}
        for outbox, each in said.items():
            outbox.send_frame(encode_produced(each))
            outbox.flush()

    def _wait(self, call: HandlerCall) -> None:
        """Hand out no more of the call's partitions before its message is written.

        Each further record would only wait for the same target, until eventTimeout ends it.
        """
        if call.waits:
            return
        call.waits = True
        for partition, first in call.records:
            is_first = not partition.pending.wait_count
            partition.pending.note_waits(first, call)
            if is_first and not self._state.policy.batch:
                for lane in partition.lane.parts:
                    if lane.in_flight_count and lane.worker_index is not None:
                        self._state.workers[lane.worker_index].recall(lane)

    def _take_over(self, outbox: FrameSender, number: int, size_bytes: int) -> None:
        """Count a waiting message no more against its worker's bound, up to 16 MiB of them in all."""
        place = outbox, number
        if place not in self._waiting and self._waiting_bytes + size_bytes <= _MAX_WAITING_BYTES:
            self._waiting[place] = size_bytes
            self._waiting_bytes += size_bytes
            self._report(outbox, number, DeliveryReport(WAITING))

    def _release(self, call: HandlerCall) -> None:
        """Hold the call's records no more: all that it has produced is written, or it has failed."""
        for partition, first in call.records:
            held = partition.pending.get(first)
            if held is None or held.call is not call:
                continue  # the record was handed out again, and is held by that call now
            # A partition that has left may still be about to make its last commit, which must not cover it.
            if call.failure and not self._is_here(partition):
                continue
            partition.pending.drop(first)
            if call.failure:
                self._fail(partition, first, held)
        self._state.changed.set()
        if call.waits:
            for partition in {partition for partition, _ in call.records if not partition.pending.wait_count}:
                self._state.offer_again(partition.lane)
            asyncio.get_running_loop().call_soon(self._dispatch)
        if self._is_held_up and not self.is_held_up():
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _is_here(self, partition: AssignedPartition) -> bool:
        return self._state.partitions.get(partition.lane.id) is partition

    def _fail(self, partition: AssignedPartition, first: int, held: PendingRecord) -> None:
        """Fail a record of which a message can't be written: whatever has settled it is void.

        In a batch any record may have produced that message, so all of them share the blame.
        """
        partition.pending.reject(first)
        is_settled, why = partition.ledger.is_settled(first), (held.call.failure, len(held.call.records))
        if is_settled:
            partition.take_back(first, held.end, held.failures)
        if first in partition.awaiting_ack:
            self._redelivery.fail(partition, first, *why)
        elif self._is_in_flight(partition, held.end - 1):
            partition.nacked[first] = why  # it fails once its handler has returned
        elif partition.lane.state is PartitionState.REVOKED:
            self._redelivery.fail(partition, first, *why)  # its next owner tries it again
        elif is_settled:
            self._redeliver_settled(partition, first, held)

    def _is_in_flight(self, partition: AssignedPartition, offset: int) -> bool:
        return any(_find(worker, partition.lane, offset) for worker in self._state.workers)

    def _redeliver_settled(self, partition: AssignedPartition, first: int, held: PendingRecord) -> None:
        """Have a record come again that its handler's return had settled, so that it is in no queue."""
        if held.record is not None and isinstance(partition.lane, KeyedLanes):
            part = partition.lane.lane_of(held.record)
            part.take_again(held.record)
            self._on_failed(part, [held.record], held.call.failure, 1)
        else:
            _wait_as_unacked(partition, first, held.end)
            self._redelivery.fail(partition, first, held.call.failure, len(held.call.records))


def _hold(
    partition: AssignedPartition, first: int, end: int, call: HandlerCall, record: WireRecord | None = None
) -> tuple[AssignedPartition, int]:
    failed = partition.failed.of(first) if partition.failed else None
    partition.pending[first] = PendingRecord(call, end, 0 if failed is None else failed.failures, record)
    return partition, first


def _find(worker: WorkerHandle, lane: Lane, offset: int) -> WireRecord | None:
    runs = (run for run in worker.in_flight.runs if run.lane.whole is lane.whole)  # of any key
    return next((record for run in runs for record in run.records if record.offset == offset), None)


def _wait_as_unacked(partition: AssignedPartition, first: int, end: int) -> None:
    """Have a record wait for an ack that nobody will give: Redelivery then has it come again."""
    partition.awaiting_ack.add([first], NOBODY)
    if partition.lane.buffer.holds_ranges:
        partition.awaiting_ack.add_ends([(first, end)])

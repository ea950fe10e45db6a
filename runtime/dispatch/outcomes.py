"""Outcomes that workers report go to lanes, and acks to the router; lanes that may go on are offered."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from headrace.runtime.config.delivery_policy import AckMode, Then
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.failure_handler import FailureHandler
from headrace.runtime.dispatch.partition_acks import PartitionAcks
from headrace.runtime.dispatch.produce_tracker import ProduceTracker
from headrace.runtime.dispatch.redelivery import Redelivery
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.metrics.custom_metric import CustomMetric, CustomSample
from headrace.runtime.partitions.chunk import first_timestamp
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.offsets.failure_text import in_one_line, is_alike, log_extra
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.partition_offsets import Nacked
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.outcomes import Ack, Nack
from headrace.runtime.wire.produce import ProduceRequest
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.workers.handle import WorkerHandle, WorkerState
from headrace.runtime.workers.listener import HandlerTime

logger = logging.getLogger(__name__)

_AT_LAST: Mapping[Then | Literal["report"], str] = {
    "halt": "and halts its partition",
    "deadLetter": "to become a dead letter",
    "skip": "and is skipped",
}


class Outcomes:
    """The WorkerListener of one dispatcher: called by its workers' receivers, synchronously."""

    def __init__(  # noqa: PLR0913, PLR0917  # whom outcomes concern
        self,
        state: DispatcherState,
        router: AckRouter,
        acks: PartitionAcks,
        failures: FailureHandler,
        redelivery: Redelivery,
        dispatch: Callable[[], None],
        look_at_memory: Callable[[WorkerHandle], None],
    ) -> None:
        """`dispatch` hands out more; `look_at_memory` replaces a worker that takes too much."""
        self._state = state
        self._router = router
        self._acks = acks
        self._failures = failures
        self._redelivery = redelivery
        self._dispatch = dispatch
        self._look_at_memory = look_at_memory
        self.produces = ProduceTracker(state, redelivery, dispatch, self.on_failed)

    # ---- the life of a worker

    def on_started(self, worker_index: int) -> None:
        """Tell the worker's new process which partitions it may ack."""
        self._state.workers[worker_index].sender.send_frame(self._router.owned_frame(self._acks))

    def on_died(self, worker_index: int) -> None:
        """Have records come again that the dead process had handled, and nobody has acked."""
        worker = self._state.workers[worker_index]
        self._redelivery.on_worker_died(worker.index)
        self._state.metrics.custom.forget_worker(self._state.metrics.owner, worker.index)
        if worker.state is not WorkerState.STOPPED:
            self._state.metrics.on_restart(worker.index, worker.why_restarted)

    def on_loaded(self, worker_index: int) -> None:
        """Check the worker's memory before it gets a record: its handler's import may have taken too much."""
        worker = self._state.workers[worker_index]
        self._look_at_memory(worker)
        most = self._state.policy.max_concurrency
        if most > 1 and worker.in_flight.seats == 1 and not worker.index and not worker.restarts:
            message = "maxConcurrency %d has no effect: the handler isn't async, and runs one event at a time"
            logger.warning(message, most)

    def on_protocol_violation(self) -> None:
        """Count a worker that says what can't be, and is killed for that."""
        self._state.metrics.protocol_violations.inc()

    # ---- what is measured

    def on_metrics(
        self, worker_index: int, metric: CustomMetric, samples: Sequence[CustomSample], dropped: int
    ) -> None:
        """Take over samples of the handler's own metrics, and how many of them its process has dropped."""
        metrics = self._state.metrics
        dropped += metrics.custom.add(metrics.owner, worker_index, metric, samples)
        metrics.dropped_samples.inc(dropped)

    def on_measured(self, worker_index: int, timed: Sequence[HandlerTime]) -> None:
        """Take note of how long handlers took."""
        state = self._state
        state.run_sizer.on_measured(sum(it.record_count for it in timed), sum(it.handler_ns for it in timed))
        for lane, count, handler_ns, each_ns in timed:
            metrics = state.metrics if lane is None else state.metrics_of(lane)
            metrics.on_handled(worker_index, count, handler_ns, each_ns)

    # ---- what became of records

    def on_handled(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Settle records that succeeded, or have them wait for their acks if only acks count."""
        if nacked := self._nacked_of(lane):
            self._on_some_nacked(lane, records, nacked)
        elif self._state.policy.ack_mode is AckMode.EXPLICIT_ONLY:
            lane.on_unacked(records)
        else:
            lane.on_settled(records)
        self._note_success(lane, records)
        self._on_left_worker(lane)

    def on_unacked(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Have a record that succeeded wait for its ack, as its handler's response asks for."""
        lane.on_unacked(records)
        if self._nacked_of(lane):
            self._redelivery.on_handled(self._state.partitions[lane.whole.id], lane.first_offsets(records))
        self._note_success(lane, records)
        self._on_left_worker(lane)

    def on_failed(self, lane: Lane, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """Count a failed attempt. Records in flight behind these come back before these are tried again."""
        self._state.metrics_of(lane).handled_failure.inc(len(records))
        self._log_failure(lane, records, reason, among)
        lane.on_failed(records, reason, among)
        self.on_returned(lane, records)

    def on_suspected(self, lane: Lane, records: Sequence[WireRecord], reason: str) -> None:
        """Suspect records that had started when their worker's process ended: any of them may be to blame."""
        if not self._reports_itself(lane):
            message = "%s offsets %d to %d stay uncommitted, which of them is to blame isn't known: %s"
            logger.error(message, lane.key, *_first_and_last(lane, records), reason)
        lane.on_suspected(records)
        self.on_returned(lane, records)

    def on_returned(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Take back records that are to be handed out again."""
        partition = self._state.partition_of(lane)
        if partition is not None and partition.pending:
            self.produces.on_returned(partition, lane.first_offsets(records))
        if nacked := self._nacked_of(lane):  # a record that comes again needs no nack
            for first in lane.first_offsets(records):
                nacked.pop(first, None)
        lane.on_returned(records)
        self._on_left_worker(lane)

    def on_produced(self, worker_index: int, lane: Lane | None, said: ProduceRequest) -> None:
        """Send on a produced message. Raises ProtocolViolationError as ProduceTracker.take does."""
        self.produces.take(self._state.workers[worker_index], lane, said)

    def on_ack(self, said: Ack | Nack) -> None:
        """Route an ack or nack, which may be for another trigger of the function."""
        self._router.route(said, self._acks)

    def on_frames_read(self) -> None:
        """Hand out more, now that all frames of one read are taken in."""
        self._dispatch()

    # ---- inside

    def _note_success(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        metrics = self._state.metrics_of(lane)
        metrics.handled_success.inc(len(records))
        metrics.on_latency(first_timestamp(records), len(records))

    def _nacked_of(self, lane: Lane) -> Nacked:
        """Return the records that the lane's handlers have nacked before they returned, with reasons."""
        partition = self._state.partition_of(lane)
        return {} if partition is None else partition.nacked

    def _on_some_nacked(self, lane: Lane, records: Sequence[WireRecord], nacked: Nacked) -> None:
        """Have nacked records wait for acks, whatever the mode, until they come again.

        If records may overtake each other, a nacked one fails at once instead.
        """
        if self._state.partitions[lane.whole.id].lane.is_keyed:
            self._fail_nacked(lane, records, nacked)
            return
        firsts, is_only = lane.first_offsets(records), self._state.policy.ack_mode is AckMode.EXPLICIT_ONLY
        for first, record in zip(firsts, records, strict=True):
            (lane.on_unacked if is_only or first in nacked else lane.on_settled)([record])
        self._redelivery.on_handled(self._state.partitions[lane.whole.id], firsts)

    def _fail_nacked(self, lane: Lane, records: Sequence[WireRecord], nacked: Nacked) -> None:
        for first, record in zip(lane.first_offsets(records), records, strict=True):
            if (why := nacked.pop(first, None)) is not None:
                self.on_failed(lane, [record], *why)
            else:
                lane.on_settled([record])

    def _on_left_worker(self, lane: Lane) -> None:
        """Decide on the lane's failures once nothing of it is in flight, and offer it if it may go on."""
        state = self._state
        partition = state.partition_of(lane)
        if not lane.in_flight_count:
            state.changed.set()
            if partition is not None and isinstance(lane, PartitionLane):
                if lane.state is PartitionState.RETURNING:
                    self._failures.after_failure(partition, lane)
                if partition.awaiting_ack.has_orphans:
                    self._redelivery.redeliver(partition)
            state.offer_again(lane)
        elif lane.whole is not lane:  # other keys may go out beside what is left of this one
            state.offer(lane.whole)
        if partition is not None:
            state.feed.on_room(partition)

    def _reports_itself(self, lane: Lane) -> bool:
        """Whether the lane's maker tells of its failures: an http request has them as its answer."""
        return self._state.policy.failure.then == "report" or lane.id in self._state.guest_metrics

    def _log_failure(self, lane: Lane, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """Log the whole reason once, then a line while it stays alike; nothing if the lane reports itself."""
        if self._reports_itself(lane):
            return
        first, last = _first_and_last(lane, records)
        where = f"offset {first}" if first == last else f"offsets {first} to {last}, in one batch,"
        stays = "it stays uncommitted" if first == last else "they stay uncommitted"
        policy, attempt = self._state.policy.failure, lane.attempt(records[0])
        of_how_many = f" of {policy.max_attempts}" if attempt <= policy.max_attempts else ""
        follows = "to be tried again"
        if policy.is_spent(attempt):
            follows = _AT_LAST[policy.then] if among == 1 else "to be tried again with fewer others"
        partition = self._state.partition_of(lane)
        before = partition.failed.of(first) if partition is not None else None
        is_known = before is not None and is_alike(before.reason, reason)
        message = "%s %s failed at attempt %d%s; %s, %s: %s"
        why = in_one_line(reason)
        about = {**lane.key._asdict(), "offset": last, "attempt": attempt}
        extra = log_extra(reason, is_known=is_known, **about)
        logger.error(message, lane.key, where, attempt, of_how_many, stays, follows, why, extra=extra)


def _first_and_last(lane: Lane, records: Sequence[WireRecord]) -> tuple[int, int]:
    """Return the lowest and the highest offset of these records, for a log line."""
    spans = lane.spans(records)
    return spans[0][0], spans[-1][1] - 1

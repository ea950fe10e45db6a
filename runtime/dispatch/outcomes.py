"""What workers tell: outcomes go to lanes, acks to the router, and what becomes free is offered again."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from headrace.runtime.config.delivery_policy import AckMode, Then
from headrace.runtime.dispatch.failure_handler import FailureHandler
from headrace.runtime.dispatch.partition_acks import PartitionAcks
from headrace.runtime.dispatch.produce_tracker import ProduceTracker
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.metrics.custom_metric import CustomMetric, CustomSample
from headrace.runtime.partitions.chunk import first_timestamp
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.offsets.failure_text import in_one_line, is_alike, log_extra
from headrace.runtime.partitions.partition import Nacked
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.produce import ProduceRequest
from headrace.runtime.wire.records import Ack, Nack, WireRecord
from headrace.runtime.wire.reply import Reply
from headrace.runtime.workers.handle import WorkerHandle, WorkerState
from headrace.runtime.workers.listener import Timed

logger = logging.getLogger(__name__)

_AT_LAST: Mapping[Then | Literal["report"], str] = {
    "halt": "and halts its partition",
    "deadLetter": "to become a dead letter",
    "skip": "and is skipped",
}


class Outcomes:
    """Keeps WorkerListener."""

    def __init__(  # noqa: PLR0913, PLR0917  # whom outcomes concern
        self,
        shared: DispatcherState,
        failures: FailureHandler,
        acks: PartitionAcks,
        produces: ProduceTracker,
        dispatch: Callable[[], None],
        look_at_memory: Callable[[WorkerHandle], None],
    ) -> None:
        self._shared = shared
        self._failures = failures
        self._acks = acks
        self._produces = produces
        self._dispatch = dispatch
        self._look_at_memory = look_at_memory

    def on_started(self, worker: WorkerHandle) -> None:
        """A process was started for it."""
        worker.outbox.send_frame(self._acks.owned_frame())

    def on_died(self, worker: WorkerHandle) -> None:
        """Its process is gone."""
        self._acks.on_died(worker.index)
        self._shared.metrics.custom.forget_worker(self._shared.metrics.owner, worker.index)
        if worker.state is not WorkerState.STOPPED:
            self._shared.metrics.on_restart(worker.index, worker.why_restarted)

    def on_loaded(self, worker: WorkerHandle) -> None:
        """Its handler is imported: that may have taken too much."""
        self._look_at_memory(worker)
        most = self._shared.policy.max_concurrency
        if most > 1 and worker.in_flight.seats == 1 and not worker.index and not worker.restarts:
            message = "maxConcurrency %d has no effect: the handler isn't async, and runs one event at a time"
            logger.warning(message, most)

    def on_metrics(
        self, worker_index: int, measure: CustomMetric, samples: Sequence[CustomSample], dropped: int
    ) -> None:
        """The handler has counted something by itself, and some of it in vain."""
        metrics = self._shared.metrics
        dropped += metrics.custom.add(metrics.owner, worker_index, measure, samples)
        metrics.dropped_samples.inc(dropped)

    def on_nonsense(self) -> None:
        """A worker says what it can't know."""
        self._shared.metrics.nonsense.inc()

    def on_measured(self, worker_index: int, timed: Sequence[Timed]) -> None:
        """Handlers took that long."""
        shared = self._shared
        shared.run_sizer.on_measured(sum(it.record_count for it in timed), sum(it.handler_ns for it in timed))
        for lane, count, handler_ns, each_ns in timed:
            metrics = shared.metrics if lane is None else shared.metrics_of(lane)
            metrics.on_handled(worker_index, count, handler_ns, each_ns)

    def on_replied(self, lane: Lane, record: WireRecord, reply: Reply) -> None:
        """What the handler returned, before what becomes of the record."""
        lane.on_replied(record, reply)

    def on_handled(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Records succeeded."""
        if nacked := self._nacked_of(lane):
            self._on_some_nacked(lane, records, nacked)
        elif self._shared.policy.ack_mode is AckMode.EXPLICIT_ONLY:
            lane.on_unacked(records)
        else:
            lane.on_settled(records)
        self._note_success(lane, records)
        self._freed(lane)

    def on_unacked(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """A record succeeded, and its response says that somebody will ack it later."""
        lane.on_unacked(records)
        if self._nacked_of(lane):
            self._acks.nacks.on_handled(self._shared.partitions[lane.whole.id], lane.first_offsets(records))
        self._note_success(lane, records)
        self._freed(lane)

    def on_failed(self, lane: Lane, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """Records failed: later ones of their lane come back before they are tried again."""
        self._shared.metrics_of(lane).handled_failure.inc(len(records))
        self._log_failure(lane, records, reason, among)
        lane.on_failed(records, reason, among)
        self.on_returned(lane, records)

    def on_suspected(self, lane: Lane, records: Sequence[WireRecord], reason: str) -> None:
        """One of several records that had started has killed their worker."""
        if not self._reports_itself(lane):
            message = "%s offsets %d to %d stay uncommitted, which of them is to blame isn't known: %s"
            logger.error(message, lane.key, *_first_and_last(lane, records), reason)
        lane.on_suspected(records)
        self.on_returned(lane, records)

    def on_returned(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Records are to be handed out again."""
        partition = self._shared.partition_of(lane)
        if partition is not None and partition.held:
            self._produces.on_returned(partition, lane.first_offsets(records))
        if nacked := self._nacked_of(lane):  # what comes again needs no nack: it has failed, or not ended
            for first in lane.first_offsets(records):
                nacked.pop(first, None)
        lane.on_returned(records)
        self._freed(lane)

    def on_produced(self, worker_index: int, lane: Lane | None, said: ProduceRequest) -> None:
        """A handler has produced a message."""
        self._produces.take(self._shared.workers[worker_index], lane, said)

    def on_acked(self, ack: Ack) -> None:
        """A handler acked, of whichever trigger."""
        self._acks.route(ack)

    def on_nacked(self, nack: Nack) -> None:
        """A handler says that a record has failed, of whichever trigger."""
        self._acks.route(nack)

    def on_changed(self) -> None:
        """One batch of news is over: hand out more."""
        self._dispatch()

    def _note_success(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        metrics = self._shared.metrics_of(lane)
        metrics.handled_success.inc(len(records))
        metrics.on_latency(first_timestamp(records), len(records))

    def _nacked_of(self, lane: Lane) -> Nacked:
        """What its handlers have nacked before they returned."""
        partition = self._shared.partition_of(lane)
        return {} if partition is None else partition.nacked

    def _on_some_nacked(self, lane: Lane, records: Sequence[WireRecord], nacked: Nacked) -> None:
        """Those wait for acks, whatever the mode, until they come again. Where order is loose they fail."""
        if self._shared.partitions[lane.whole.id].is_loose:
            self._fail_nacked(lane, records, nacked)
            return
        firsts, is_only = lane.first_offsets(records), self._shared.policy.ack_mode is AckMode.EXPLICIT_ONLY
        for first, record in zip(firsts, records, strict=True):
            (lane.on_unacked if is_only or first in nacked else lane.on_settled)([record])
        self._acks.nacks.on_handled(self._shared.partitions[lane.whole.id], firsts)

    def _fail_nacked(self, lane: Lane, records: Sequence[WireRecord], nacked: Nacked) -> None:
        for first, record in zip(lane.first_offsets(records), records, strict=True):
            if (why := nacked.pop(first, None)) is not None:
                self.on_failed(lane, [record], *why)
            else:
                lane.on_settled([record])

    def _reports_itself(self, lane: Lane) -> bool:
        return self._shared.policy.failure.then == "report" or lane.id in self._shared.guests

    def _log_failure(self, lane: Lane, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """All of the reason once; its line, while only that changes. Not where the lane reports itself."""
        if self._reports_itself(lane):
            return
        first, last = _first_and_last(lane, records)
        where = f"offset {first}" if first == last else f"offsets {first} to {last}, in one batch,"
        stays = "it stays uncommitted" if first == last else "they stay uncommitted"
        policy, attempt = self._shared.policy.failure, lane.attempt(records[0])
        of_how_many = f" of {policy.max_attempts}" if attempt <= policy.max_attempts else ""
        follows = "to be tried again"
        if policy.is_spent(attempt):
            follows = _AT_LAST[policy.then] if among == 1 else "to be tried again with fewer others"
        partition = self._shared.partition_of(lane)
        before = partition.failed.of(first) if partition is not None else None
        is_known = before is not None and is_alike(before.reason, reason)
        message = "%s %s failed at attempt %d%s; %s, %s: %s"
        why = in_one_line(reason)
        about = {**lane.key._asdict(), "offset": last, "attempt": attempt}
        extra = log_extra(reason, is_known=is_known, **about)
        logger.error(message, lane.key, where, attempt, of_how_many, stays, follows, why, extra=extra)

    def _freed(self, lane: Lane) -> None:
        shared = self._shared
        partition = shared.partition_of(lane)
        if not lane.in_flight_count:
            shared.news.set()
            if partition is not None and isinstance(lane, PartitionLane):
                if lane.state is PartitionState.RETURNING:
                    self._failures.after_failure(partition, lane)
                if partition.unacked.has_orphans:
                    self._acks.redeliver(partition)
            shared.offer_again(lane)
        elif lane.whole is not lane:  # others of it may go beside what is left of this
            shared.offer(lane.whole)
        if partition is not None:
            shared.feed.on_room(partition)


def _first_and_last(lane: Lane, records: Sequence[WireRecord]) -> tuple[int, int]:
    """Offsets, for people."""
    spans = lane.spans(records)
    return spans[0][0], spans[-1][1] - 1

"""The listener of a trial's worker, which keeps what becomes of each record."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from headrace.runtime.config.delivery_policy import AckMode
from headrace.runtime.metrics.custom_metric import CustomMetric, CustomSample
from headrace.runtime.metrics.custom_metrics import CustomMetrics
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.testing.results import Partition
from headrace.runtime.testing.trial_lane import TrialLane, TrialRecord
from headrace.runtime.wire.outcomes import Ack, Nack
from headrace.runtime.wire.produce import Message, ProduceRequest, ProduceResult, encode_produced
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.workers.listener import HandlerTime

RefuseMessage: TypeAlias = Callable[[Message], str]


class TrialListener:
    """Takes outcomes from a worker, in place of a dispatcher. Records that come again wait in `returned`."""

    def __init__(
        self,
        lanes: Mapping[Partition, TrialLane],
        ack_mode: AckMode,
        refuse: RefuseMessage,
        confirm: Callable[[bytes], None],
        *,
        is_cumulative: bool,
    ) -> None:
        """`confirm` sends a frame to the worker.

        `refuse` says why a message can't be written; nothing where it can.
        """
        self.returned: list[tuple[TrialLane, int]] = []
        """Lanes, and how many of their records came back, in the order in which they did."""
        self.produced: list[Message] = []
        """Messages that the handler has produced, in order."""
        self.handler_ns = 0
        self.metrics = CustomMetrics()
        self._lanes = lanes
        self._ack_mode = ack_mode
        self._refuse = refuse
        self._confirm = confirm
        self.running: Sequence[tuple[TrialLane, TrialRecord]] = ()
        """Records that the handler is in: one, or those of a batch. The trial sets it before each call."""
        self._is_cumulative = is_cumulative

    def on_handled(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Settle records, unless they were nacked, or wait for an ack."""
        for record in records:
            has_failed = cast("TrialRecord", record).failure is not None  # it was nacked, say
            if has_failed or self._ack_mode is AckMode.EXPLICIT_ONLY:
                lane.on_unacked([record])
            else:
                lane.on_settled([record])

    def on_unacked(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Leave records open, whose responses ask not to ack them."""
        lane.on_unacked(records)

    def on_failed(self, lane: Lane, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """Fail records, which may come again."""
        lane.on_failed(records, reason, among)
        self._note_again(self._lanes[lane.key])

    def on_returned(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Take back records that weren't handled, which come again."""
        lane.on_returned(records)
        self.returned.append((self._lanes[lane.key], len(records)))

    def on_ack(self, said: Ack | Nack) -> None:
        """Settle what was acked, and fail what was nacked."""
        lane = self._lanes[said.topic, said.partition]
        if isinstance(said, Nack):
            self._fail(lane, said.offset, said.reason)
        else:
            # From 0: what is below the lane's first record was never open.
            lane.settle(0 if said.is_through or self._is_cumulative else said.first, said.offset)

    def on_produced(self, worker_index: int, lane: Lane | None, said: ProduceRequest) -> None:
        """Confirm or refuse a message at once. Refused, it fails all the records that it is of."""
        message, partition = said.message, said.message.partition or 0
        # A message of a batch is of all its records.
        records = self.running if len(self.running) > 1 else self._found(lane, said.offset)
        if why := self._refuse(message):
            for record_lane, record in records:
                self._fail(record_lane, record.offset, why)
            self._confirm(encode_produced([ProduceResult(said.number, failure=why)]))
            return
        # Messages get the offsets that they would get in an empty partition.
        offset = sum((it.topic, it.partition or 0) == (message.topic, partition) for it in self.produced)
        self.produced.append(message)
        for _, record in records:
            record.produced.append(message)
        self._confirm(encode_produced([ProduceResult(said.number, partition, offset)]))

    def on_metrics(
        self, worker_index: int, metric: CustomMetric, samples: Sequence[CustomSample], dropped: int
    ) -> None:
        """Add up what the handler's metrics were told."""
        self.metrics.add((), worker_index, metric, samples)

    def _found(self, lane: Lane | None, offset: int) -> Sequence[tuple[TrialLane, TrialRecord]]:
        """Return the record that a message is of, if it is of one."""
        ours = None if lane is None else self._lanes[lane.key]
        record = None if ours is None else ours.by_offset.get(offset)
        return [] if ours is None or record is None else [(ours, record)]

    def _fail(self, lane: TrialLane, offset: int, reason: str) -> None:
        lane.fail(offset, reason)
        self._note_again(lane)

    def _note_again(self, lane: TrialLane) -> None:
        if lane.again_count:
            self.returned.append((lane, lane.again_count))
            lane.again_count = 0

    def on_suspected(self, lane: Lane, records: Sequence[WireRecord], reason: str) -> None:
        """Do nothing: no process dies here but the test's own."""

    def on_measured(self, worker_index: int, timed: Sequence[HandlerTime]) -> None:
        """Add up the time in the handler."""
        self.handler_ns += sum(it.handler_ns for it in timed)

    def on_protocol_violation(self) -> None:
        """Do nothing: a handler that is tested writes to no socket of ours."""

    def on_frames_read(self) -> None:
        """Do nothing: a trial hands out its records by itself."""

    def on_started(self, worker_index: int) -> None:
        """Do nothing: a trial has no process."""

    on_loaded = on_died = on_started

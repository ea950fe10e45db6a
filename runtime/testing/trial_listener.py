"""What becomes of the records of a trial: heard as a dispatcher hears it, and kept."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from headrace.runtime.config.delivery_policy import AckMode
from headrace.runtime.metrics.custom_metric import CustomMetric, CustomSample
from headrace.runtime.metrics.custom_metrics import CustomMetrics
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.testing.results import Partition
from headrace.runtime.testing.trial_lane import TrialLane, TrialRecord
from headrace.runtime.wire.produce import Message, ProduceRequest, ProduceResult, encode_produced
from headrace.runtime.wire.records import Ack, Nack, WireRecord
from headrace.runtime.wire.reply import Reply
from headrace.runtime.workers.listener import Timed

RefuseMessage: TypeAlias = Callable[[Message], str]


class TrialListener:
    """A RecordListener. What came back, or is to be tried again, waits in `returned`."""

    def __init__(
        self,
        lanes: Mapping[Partition, TrialLane],
        ack_mode: AckMode,
        refuse: RefuseMessage = lambda _: "",
        *,
        is_cumulative: bool,
    ) -> None:
        """`refuse` says why a message can't be written; nothing where it can."""
        self.returned: list[tuple[TrialLane, int]] = []
        """Lanes, and how many of their records, in the order in which they came back."""
        self.produced: list[Message] = []
        """In order."""
        self.handler_ns = 0
        self.metrics = CustomMetrics()
        self.confirm: Callable[[bytes], None]
        """Sends a frame to the worker. Its owner sets it."""
        self._lanes = lanes
        self._ack_mode = ack_mode
        self._refuse = refuse
        self.running: Sequence[tuple[TrialLane, TrialRecord]] = ()
        """What the handler is in: one record, or those of a batch. Its owner keeps it."""
        self._is_cumulative = is_cumulative

    def on_handled(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """As RecordListener says."""
        for record in records:
            has_failed = cast("TrialRecord", record).failure is not None  # it was nacked, say
            if has_failed or self._ack_mode is AckMode.EXPLICIT_ONLY:
                lane.on_unacked([record])
            else:
                lane.on_settled([record])

    def on_unacked(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """As RecordListener says."""
        lane.on_unacked(records)

    def on_failed(self, lane: Lane, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """As RecordListener says."""
        lane.on_failed(records, reason, among)
        self._note_again(self._lanes[lane.key])

    def on_returned(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """As RecordListener says."""
        lane.on_returned(records)
        self.returned.append((self._lanes[lane.key], len(records)))

    def on_acked(self, ack: Ack) -> None:
        """As RecordListener says."""
        first = 0 if ack.is_through or self._is_cumulative else ack.first
        self._lanes[ack.topic, ack.partition].settle(first, ack.offset)

    def on_nacked(self, nack: Nack) -> None:
        """As RecordListener says."""
        self._fail(self._lanes[nack.topic, nack.partition], nack.offset, nack.reason)

    def on_produced(self, worker_index: int, lane: Lane | None, said: ProduceRequest) -> None:
        """It is confirmed, or refused, at once. Refused, it fails all the records that it is of."""
        message, partition = said.message, said.message.partition or 0
        records = self.running if len(self.running) > 1 else self._found(lane, said.offset)
        if why := self._refuse(message):
            for of_record, record in records:
                self._fail(of_record, record.offset, why)
            self.confirm(encode_produced([ProduceResult(said.number, failure=why)]))
            return
        offset = sum((it.topic, it.partition or 0) == (message.topic, partition) for it in self.produced)
        self.produced.append(message)
        for _, record in records:
            record.produced.append(message)
        self.confirm(encode_produced([ProduceResult(said.number, partition, offset)]))

    def on_metrics(
        self, worker_index: int, measure: CustomMetric, samples: Sequence[CustomSample], dropped: int
    ) -> None:
        """As RecordListener says."""
        self.metrics.add((), worker_index, measure, samples)

    def _found(self, lane: Lane | None, offset: int) -> Sequence[tuple[TrialLane, TrialRecord]]:
        """The record that a message is of, if it is of one."""
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
        """No process dies here but the test's own."""

    def on_replied(self, lane: Lane, record: WireRecord, reply: Reply) -> None:
        """The test sees what the handler returns."""

    def on_measured(self, worker_index: int, timed: Sequence[Timed]) -> None:
        """As RecordListener says."""
        self.handler_ns += sum(it.handler_ns for it in timed)

    def on_nonsense(self) -> None:
        """A handler that is tested writes to no socket of ours."""

    def on_changed(self) -> None:
        """Of no interest here."""

"""What becomes of the records of a trial: heard as a dispatcher hears it, and kept."""

from collections.abc import Callable, Mapping, Sequence

from headrace.runtime.config.delivery import AckMode
from headrace.runtime.metrics.custom import CustomMetrics
from headrace.runtime.metrics.measure import Measure, Sample
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.testing.lane import TrialLane
from headrace.runtime.testing.results import Partition
from headrace.runtime.wire.frames import Ack, Nack, WireRecord
from headrace.runtime.wire.produce import Message, Produce, Produced, encode_produced
from headrace.runtime.wire.reply import Reply


class Book:
    """A RecordListener. What has failed isn't tried again; what came back waits in `returned`."""

    def __init__(
        self, lanes: Mapping[Partition, TrialLane], ack_mode: AckMode, *, is_cumulative: bool
    ) -> None:
        self.returned: list[tuple[TrialLane, int]] = []
        """Lanes, and how many of their records, in the order in which they came back."""
        self.produced: list[Message] = []
        """In order."""
        self.metrics = CustomMetrics()
        self.confirm: Callable[[bytes], None]
        """Sends a frame to the worker. Its owner sets it."""
        self._lanes = lanes
        self._ack_mode = ack_mode
        self._is_cumulative = is_cumulative

    def on_handled(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """As RecordListener says."""
        if self._ack_mode is AckMode.EXPLICIT_ONLY:
            lane.on_unacked(records)
        else:
            lane.on_settled(records)

    def on_unacked(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """As RecordListener says."""
        lane.on_unacked(records)

    def on_failed(self, lane: Lane, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """As RecordListener says."""
        lane.on_failed(records, reason, among)

    def on_returned(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """As RecordListener says."""
        lane.on_returned(records)
        self.returned.append((self._lanes[lane.key], len(records)))

    def on_acked(self, ack: Ack) -> None:
        """As RecordListener says."""
        first = 0 if ack.is_through or self._is_cumulative else ack.first
        self._lanes[ack.topic, ack.partition].ledger.settle(first, ack.offset + 1)

    def on_nacked(self, nack: Nack) -> None:
        """As RecordListener says."""
        self._lanes[nack.topic, nack.partition].fail(nack.offset, nack.reason)

    def on_produced(self, worker_index: int, lane: Lane | None, said: Produce) -> None:
        """It is confirmed at once."""
        partition = said.message.partition or 0
        offset = sum((it.topic, it.partition or 0) == (said.message.topic, partition) for it in self.produced)
        self.produced.append(said.message)
        self.confirm(encode_produced([Produced(said.number, partition, offset)]))

    def on_metrics(self, worker_index: int, measure: Measure, samples: Sequence[Sample]) -> None:
        """As RecordListener says."""
        self.metrics.add((), worker_index, measure, samples)

    def on_suspected(self, lane: Lane, records: Sequence[WireRecord], reason: str) -> None:
        """No process dies here but the test's own."""

    def on_replied(self, lane: Lane, record: WireRecord, reply: Reply) -> None:
        """The test sees what the handler returns."""

    def on_measured(
        self, worker_index: int, count: int, handler_ns: int, each_ns: Sequence[int] = ()
    ) -> None:
        """Of no interest here."""

    def on_nonsense(self) -> None:
        """A handler that is tested writes to no socket of ours."""

    def on_changed(self) -> None:
        """Of no interest here."""

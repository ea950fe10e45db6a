"""What is heard of records that a worker holds."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headrace.runtime.metrics.custom_metric import CustomMetric, CustomSample
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire.produce import ProduceRequest
from headrace.runtime.wire.records import Ack, Nack, WireRecord
from headrace.runtime.wire.reply import Reply


class Timed(NamedTuple):
    """So many records of one lane were run in that time; some of them, by themselves, in `each_ns`."""

    lane: Lane | None
    """None: it isn't known any more."""
    record_count: int
    handler_ns: int
    each_ns: Sequence[int] = ()


class RecordListener(Protocol):
    """Called synchronously, on the processor's event loop."""

    def on_measured(self, worker_index: int, timed: Sequence[Timed]) -> None:
        """Handlers have ended, which is said of the records by itself."""

    def on_replied(self, lane: Lane, record: WireRecord, reply: Reply) -> None:
        """The handler has answered it. Its outcome follows, and may be a failure all the same."""

    def on_handled(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """They follow each other, and succeeded."""

    def on_unacked(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """It is one; it succeeded, and its response asks not to ack it."""

    def on_failed(self, lane: Lane, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """The handler failed on them, or its process died while running them, among `among` in one call.

        1 where each of them is to blame by itself.
        """

    def on_suspected(self, lane: Lane, records: Sequence[WireRecord], reason: str) -> None:
        """The process died by itself in a batch that held these and others."""

    def on_returned(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """They did not start, or the runtime killed the process in one of them."""

    def on_acked(self, ack: Ack) -> None:
        """The handler acked a record, of whichever trigger."""

    def on_nacked(self, nack: Nack) -> None:
        """The handler says that a record has failed, of whichever trigger."""

    def on_produced(self, worker_index: int, lane: Lane | None, said: ProduceRequest) -> None:
        """A handler has produced a message, for a record of that lane; None where it is over."""

    def on_metrics(
        self, worker_index: int, measure: CustomMetric, samples: Sequence[CustomSample], dropped: int
    ) -> None:
        """What the handler has counted by itself."""

    def on_nonsense(self) -> None:
        """It said what can't be, and is killed for it."""

    def on_changed(self) -> None:
        """One batch of news is over: a good moment to hand out more."""

"""The protocol by which a worker's frames and the ends of its processes reach a dispatcher."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headrace.runtime.metrics.custom_metric import CustomMetric, CustomSample
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire.outcomes import Ack, Nack
from headrace.runtime.wire.produce import ProduceRequest
from headrace.runtime.wire.records import WireRecord


class HandlerTime(NamedTuple):
    """Time in the handler of `record_count` records of one lane; `each_ns` has those times known singly.

    The time of a batch over several lanes counts for the lane of its last record, as PROGRESS names none.
    """

    lane: Lane | None
    """The lane; None if nobody knows it any more."""
    record_count: int
    handler_ns: int
    each_ns: Sequence[int] = ()


# A protocol: the dispatcher is above this package, and headrace.testing has an implementation of its own.
class WorkerListener(Protocol):
    """Receives what becomes of a worker's processes, and of the records that they hold.

    Called synchronously, on the processor's event loop: no method may block. Records of one call are of one
    lane, in order, and follow each other there. Each record that was sent has one outcome: on_handled,
    on_unacked, on_failed, on_suspected or on_returned.
    """

    def on_started(self, worker_index: int) -> None:
        """Note that a worker has a process, which can be sent frames."""

    def on_loaded(self, worker_index: int) -> None:
        """Note that a worker is about to be ready: the last moment to replace it, for its memory say."""

    def on_died(self, worker_index: int) -> None:
        """Note that a worker's process is gone, and that all that it held has an outcome."""

    def on_handled(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Take records that succeeded."""

    def on_unacked(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Take one record that succeeded, and whose response asks not to ack it."""

    def on_failed(self, lane: Lane, records: Sequence[WireRecord], reason: str, among: int) -> None:
        """Take records on which the handler failed, or in which its process died, of `among` in one call.

        `among` is 1 if each of them is to blame by itself.
        """

    def on_suspected(self, lane: Lane, records: Sequence[WireRecord], reason: str) -> None:
        """Take records that had started when the process ended, each of which may be to blame for that.

        The process died by itself, or was killed for its memory, for eventTimeout while others ran beside the
        late record, or for a protocol violation.
        """

    def on_returned(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Take records that are to be handed out again, and are blamed for nothing.

        The worker gave them back, or its process has ended: before they started, by a kill that blames no
        record that ran, or so that nobody can say what had started.
        """

    def on_ack(self, said: Ack | Nack) -> None:
        """Take a handler's explicit ack or nack, of a record of whichever trigger."""

    def on_produced(self, worker_index: int, lane: Lane | None, said: ProduceRequest) -> None:
        """Take a message of a handler, for a record of `lane`; None if the lane is over."""

    def on_measured(self, worker_index: int, timed: Sequence[HandlerTime]) -> None:
        """Take the time of handlers that have ended, whatever the outcomes of their records."""

    def on_metrics(
        self, worker_index: int, metric: CustomMetric, samples: Sequence[CustomSample], dropped: int
    ) -> None:
        """Take what a handler has counted by a metric of its own, and how many calls weren't counted."""

    def on_protocol_violation(self) -> None:
        """Note that a worker said what can't be, and is killed for that."""

    def on_frames_read(self) -> None:
        """Note that all frames of one read were taken in: a good moment to hand out more."""

"""How much of a stream is held, as settings say it and an assignment keeps to it."""

from dataclasses import dataclass

from headrace.runtime.config.delivery import DeliveryPolicy
from headrace.runtime.partitions.buffers.bounds import FlowLimit

MOST_IN_FLIGHT = 2_000
"""Of one partition, where handlers' time alone says how many: so many quick ones keep two workers busy."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How much is held."""

    buffered: int
    """Records of one partition that may wait for a worker, decoded."""
    in_flight: int
    """Records of one partition that may be handed out and not settled; 0: as many as suit."""
    name: str
    """Of the setting that bounds what waits for acks."""
    max_buffered_bytes: int

    def of_partition(self, policy: DeliveryPolicy, worker_count: int) -> FlowLimit:
        """Where nobody has said what is in flight, workers get what they run in some milliseconds.

        But what stays open after its handler, for an ack or a transaction, is bounded as what waits here.
        """
        two_batches = 2 * policy.batch.size if policy.batch else 0  # one fills while another one is handled
        least = two_batches
        if policy.ordering != "partition":  # and all workers are full, as far as keys let them
            least = 2 * worker_count * policy.max_concurrency
        waiting = max(self.buffered, self.in_flight, least)
        if self.in_flight:
            in_flight = max(self.in_flight, two_batches)
            return FlowLimit(waiting, in_flight, in_flight)
        if policy.batch or policy.exactly_once:
            return FlowLimit(waiting, waiting, waiting)
        most = max(waiting, MOST_IN_FLIGHT)
        return FlowLimit(waiting, waiting if policy.ack_mode.is_explicit else most, most)

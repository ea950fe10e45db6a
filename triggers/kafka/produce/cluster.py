"""What is known of a cluster that is written to, for all who write to it."""

from collections.abc import Iterable

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.partitions.offsets.pending_produces import DeliveryReport, Outgoing, not_yet_written
from headrace.triggers.kafka.produce.faults import explained, why_away
from headrace.triggers.kafka.produce.outages import Outages
from headrace.triggers.kafka.produce.packing import BatchLimits


class OutputCluster:
    """How to reach it, how large its topics' batches may be, and which topics can't be written to now."""

    def __init__(self, access: BrokerAccess) -> None:
        self.access = access
        self.limits = BatchLimits()
        self.outages = Outages()

    def fail(self, messages: Iterable[Outgoing], error: BaseException) -> None:
        """They can't be written: their records have failed."""
        for message, done in messages:
            done(DeliveryReport(failure=explained(error, message, self.access)))

    def on_away(self, topic: str, error: BaseException) -> None:
        """Nothing can be written to it now, whatever the message."""
        self.outages.begin(topic, why_away(error, topic, self.access))

    def wait(self, messages: Iterable[Outgoing]) -> None:
        """Say that nothing can be written where they go: no record follows in their partitions meanwhile."""
        for message, done in messages:
            done(not_yet_written(message))

"""Explicit acks: from any worker of a function to whichever of its triggers has the partition."""

import logging

from headrace.runtime.dispatch.partition_acks import PartitionAcks
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.wire.framing import FrameKind, json_frame
from headrace.runtime.wire.outcomes import Ack, Nack

logger = logging.getLogger(__name__)


class AckRouter:
    """Routes acks to the triggers of one function on this replica. Workers know its state one frame later."""

    def __init__(self) -> None:
        self._targets: list[PartitionAcks] = []

    def add(self, target: PartitionAcks) -> None:
        """Add a trigger. Before the function runs."""
        self._targets.append(target)

    @property
    def takes_acks(self) -> bool:
        """Whether any of the triggers takes acks."""
        return any(target.takes_acks for target in self._targets)

    def route(self, said: Ack | Nack, sender: PartitionAcks) -> None:
        """Hand what one of `sender`'s workers says to `sender`, or to all that may have the partition.

        Groups share a topic without sharing their progress: what one of them has handled, another may not
        have begun. So acks of a partition that `sender` has, or had, are for `sender` alone. If nobody has
        the partition, the ack is refused, and the record is delivered by whichever replica has it now.
        """
        # Also a partition that `sender` had: an ack that crosses its revoke must not reach another group.
        is_senders = sender.has_had(PartitionKey(said.topic, said.partition))
        targets = [sender] if is_senders else self._targets
        taken = [target.take(said) for target in targets if target.takes_acks]
        if not any(taken):
            logger.warning(
                "%s of %s/%d offset %d is refused: the partition is not assigned to this replica; "
                "the record is delivered again where it is",
                "an ack" if isinstance(said, Ack) else "a nack",
                said.topic,
                said.partition,
                said.offset,
            )

    def sync(self) -> None:
        """Take in what all workers have acked by now: any of them may have acked for any trigger."""
        for target in self._targets:
            target.sync_workers()

    def owned_frame(self, sender: PartitionAcks) -> bytes:
        """Return the frame that says which partitions, of which logs, a worker of `sender` may ack here.

        The same partitions as `route` accepts. If triggers know a log differently (one is behind, or reads
        another cluster), the worker can't tell which is meant, so its stamp is left empty.
        """
        by_topic: dict[str, dict[int, str]] = {}
        for target in self._targets:
            for key in target.owned if target.takes_acks else ():
                if target is sender or not sender.has_had(key):
                    logs, log = by_topic.setdefault(key.topic, {}), target.log_of(key)
                    logs[key.partition] = log if logs.get(key.partition, log) == log else ""
        return json_frame(FrameKind.OWNED, by_topic)

    def on_changed(self) -> None:
        """Tell all workers what is owned now: an assignment has begun or ended."""
        if self.takes_acks:
            for target in self._targets:
                target.send_to_workers(self.owned_frame(target))

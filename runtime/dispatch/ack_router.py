"""Explicit acks: from any worker of a function to whichever of its triggers has the partition."""

import logging
from collections.abc import Iterable
from typing import Protocol

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.wire import records as wire
from headrace.runtime.wire.records import Ack, FrameKind, Nack

logger = logging.getLogger(__name__)


class AckTarget(Protocol):
    """One trigger."""

    @property
    def takes_acks(self) -> bool:
        """Its explicitAckMode isn't disable."""

    @property
    def owned(self) -> Iterable[PartitionKey]:
        """What this replica has now, by this trigger."""

    def log_of(self, key: PartitionKey) -> str:
        """The stamp of its log; empty where that isn't known yet."""

    def has_had(self, key: PartitionKey) -> bool:
        """Whether it has the partition, or had it before."""

    def take(self, said: Ack | Nack) -> bool:
        """Whether it has the partition, and so has decided on it."""

    def send_to_workers(self, frame: bytes) -> None:
        """To all that are there."""

    def sync_workers(self) -> None:
        """Take in what its own workers have said and acked by now."""


class AckRouter:
    """One per function and replica. Workers know what it knows, one frame later."""

    def __init__(self) -> None:
        self._targets: list[AckTarget] = []

    def add(self, target: AckTarget) -> None:
        """Before the function runs."""
        self._targets.append(target)

    @property
    def takes_acks(self) -> bool:
        """Whether any trigger does."""
        return any(target.takes_acks for target in self._targets)

    def route(self, said: Ack | Nack, sender: AckTarget | None = None) -> None:
        """To the triggers that have the partition: what `sender`'s own workers say to it, where it is its.

        Groups share a topic without sharing their progress: what one of them has handled, another may not
        have begun. If none has it, the record is delivered where it is now.
        """
        is_senders = sender is not None and sender.has_had(PartitionKey(said.topic, said.partition))
        targets = [sender] if sender is not None and is_senders else self._targets
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
        """Take in what all workers have acked by now: any of them may have, for any trigger."""
        for target in self._targets:
            target.sync_workers()

    def owned_frame(self, sender: AckTarget) -> bytes:
        """Which partitions a worker of `sender` may ack here, as `route` has it, and of which logs.

        Where triggers know it differently (one is behind, or reads another cluster) the worker can't tell.
        """
        by_topic: dict[str, dict[int, str]] = {}
        for target in self._targets:
            for key in target.owned if target.takes_acks else ():
                if target is sender or not sender.has_had(key):
                    logs, log = by_topic.setdefault(key.topic, {}), target.log_of(key)
                    logs[key.partition] = log if logs.get(key.partition, log) == log else ""
        return wire.json_frame(FrameKind.OWNED, by_topic)

    def on_changed(self) -> None:
        """An assignment has begun or ended."""
        if self.takes_acks:
            for target in self._targets:
                target.send_to_workers(self.owned_frame(target))

"""What a dispatcher asks of the trigger that feeds it."""

from collections.abc import Collection
from typing import Protocol

from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.wire.frames import WireRecord


class Feed(Protocol):
    """Kept by a trigger; called on the processor's event loop."""

    def on_room(self, partition: AssignedPartition) -> None:
        """How much of it may be fetched has changed."""

    def end_of(self, partition: AssignedPartition) -> int:
        """The partition's end as far as it is known: no record at or above it was ever seen."""

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        """Commit their state now; whether what has to survive us is safe. Bounded in time, doesn't raise."""

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """Write a dead letter; returns once it is safe, False where there is no record to write.

        Raises Exception where it isn't safe.
        """

    def retry_unreadable(self, partition: AssignedPartition) -> None:
        """Fetch the record once more that can't be read, at which the partition is cut off."""

    def skip_unreadable(self, partition: AssignedPartition) -> None:
        """Go on after that record."""


class NoFeed:
    """Keeps Feed where there is nothing behind a dispatcher: nothing survives, all goes well."""

    def on_room(self, partition: AssignedPartition) -> None:
        """Nobody fetches."""

    def end_of(self, partition: AssignedPartition) -> int:
        """What was added."""
        return partition.ledger.position

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        """At once."""
        return True

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        """Nowhere."""
        return True

    def retry_unreadable(self, partition: AssignedPartition) -> None:
        """Nothing is unreadable."""

    def skip_unreadable(self, partition: AssignedPartition) -> None:
        """Nothing is."""

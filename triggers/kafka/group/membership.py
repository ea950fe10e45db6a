"""The contract of a group membership, which both of Kafka's protocols keep."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from aiokafka import TopicPartition

from headrace.runtime.partitions.key import PartitionKey


class GroupMembershipListener(Protocol):
    """The trigger that a membership tells what has become of it."""

    def on_renewed(self, end_ns: int) -> None:
        """Note that the group keeps this member until then, by wire/clock.py."""

    def on_assigned(self, keys: Collection[PartitionKey]) -> None:
        """Take these partitions, besides those that are here. Must not wait."""

    async def on_revoked(self, keys: Collection[PartitionKey] | None, *, is_lost: bool) -> None:
        """Give these back, None is all. Return once they are at rest. `is_lost`: others have them."""


class GroupMembership(Protocol):
    """A membership in one group, by one protocol. Silent until `subscribe` joins."""

    @property
    def problem(self) -> str:
        """Why it is no member, where that is worth saying; else empty."""

    @property
    def generation(self) -> int | None:
        """The generation that commits belong to; None before it is connected."""

    def subscribe(self, topics: Collection[str]) -> None:
        """Join, and read these topics."""

    def resubscribe(self, topics: Collection[str]) -> bool:
        """Read these from now on. Return False where that can't be now: nothing was done."""

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Fetch it from there on."""

    def drop(self, keys: Iterable[PartitionKey]) -> None:
        """Fetch these no more."""

    async def watch(self) -> None:
        """Raise what ends the membership for good. Never returns."""

    async def leave(self) -> None:
        """Leave the group, and stop the consumer. To be bounded by a timeout. Raises KafkaError."""

    def status(self) -> Mapping[str, Any]:
        """Return what it is in its group, for /api/status."""

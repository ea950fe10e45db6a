"""How a trigger is in its group: what both of Kafka's protocols have in common."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from aiokafka import TopicPartition

from headrace.runtime.partitions.key import PartitionKey


class GroupMembershipListener(Protocol):
    """Whom a membership tells what has become of it."""

    def on_renewed(self, end_ns: int) -> None:
        """The group keeps this member until then, by wire/clock.py."""

    def on_assigned(self, keys: Collection[PartitionKey]) -> None:
        """These are its own from now on, besides those that were. Doesn't wait."""

    async def on_revoked(self, keys: Collection[PartitionKey] | None, *, is_lost: bool) -> None:
        """Give these back, None is all. Returns once they are at rest. `is_lost`: others have them."""


class GroupMembership(Protocol):
    """One member of one group, by one protocol. `subscribe` joins; until then it is silent."""

    @property
    def problem(self) -> str:
        """Why it is no member, where that is worth saying."""

    @property
    def generation(self) -> int | None:
        """What commits belong to; None before it is connected."""

    def subscribe(self, topics: Collection[str]) -> None:
        """Join, and read these topics."""

    def resubscribe(self, topics: Collection[str]) -> bool:
        """Read these from now on. False: not now, nothing was done."""

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Fetch it from there on."""

    def drop(self, keys: Iterable[PartitionKey]) -> None:
        """Fetch these no more."""

    async def watch(self) -> None:
        """Returns never; raises what ends the membership for good."""

    async def leave(self) -> None:
        """And stop the consumer. To be bounded by a timeout. Raises KafkaError."""

    def status(self) -> Mapping[str, Any]:
        """What it is in its group, for /api/status."""

"""Membership by the protocol `classic`: aiokafka's own, in which a rebalance moves all partitions."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from headrace.runtime.partitions.key import PartitionKey
from headrace.triggers.kafka.client import internals
from headrace.triggers.kafka.client.commits import tell_partitions_apart
from headrace.triggers.kafka.client.failed_joins import FailedJoins, watch_joins
from headrace.triggers.kafka.client.foreign_members import tolerate_foreign_members
from headrace.triggers.kafka.client.subscriptions import resubscribe
from headrace.triggers.kafka.group.membership import GroupMembershipListener
from headrace.triggers.kafka.settings.model import KafkaSettings


class ClassicMembership(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """A GroupMembership over aiokafka's coordinator, watched."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        admin: AIOKafkaAdminClient,
        settings: KafkaSettings,
        owner: GroupMembershipListener,
        on_failed_joins: Callable[[], None],
    ) -> None:
        self._consumer, self._admin = consumer, admin
        self._settings = settings
        self._owner = owner
        self._settled_ns = 0  # no rebalance that this member hasn't joined had begun by then
        backoff_seconds = settings.rebalance_retry_backoff_seconds
        self._joins = FailedJoins(
            settings.consumer_group, settings.rebalance_retry_max, backoff_seconds, on_failed_joins
        )
        # All of these wrap methods of the coordinator, which begins to work with `subscribe`.
        internals.watch_session(consumer, self._renewed)
        tell_partitions_apart(consumer)
        tolerate_foreign_members(consumer, settings.consumer_group)
        watch_joins(consumer, backoff_seconds, self._joins.failed, self._joins.joined)

    @property
    def problem(self) -> str:
        """Why joins fail; empty where they don't."""
        return self._joins.problem

    @property
    def generation(self) -> int | None:
        """The generation of the group; below 0 once the membership is lost."""
        return internals.generation(self._consumer)

    def subscribe(self, topics: Collection[str]) -> None:
        """Join the group, by aiokafka."""
        self._consumer.subscribe(topics=sorted(topics), listener=self)

    def resubscribe(self, topics: Collection[str]) -> bool:
        """Read these topics from now on. Return False amid a join."""
        return resubscribe(self._consumer, topics)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Seek a partition, which the group has assigned."""
        self._consumer.seek(tp, offset)

    def drop(self, keys: Iterable[PartitionKey]) -> None:
        """Do nothing: the group takes partitions away."""

    async def watch(self) -> None:
        """Wait for ever: the next fetch raises what ends the membership."""
        await asyncio.Event().wait()

    async def leave(self) -> None:
        """Leave the group, also amid a join."""
        await internals.stop(self._consumer, self._admin)

    def status(self) -> Mapping[str, Any]:
        """Return the generation."""
        return {"generation": self.generation}

    # ---- aiokafka's word for what the group says

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Give all back. Heartbeats go on while this is awaited."""
        # A lost membership comes as a revoke like any other: only its generation, which is below 0, tells.
        await self._owner.on_revoked(None, is_lost=internals.generation(self._consumer) < 0)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Take what is assigned. Heartbeats stand still while this is awaited."""
        settings = self._settings
        is_idle = settings.delivery == "ranges"
        # Paused before anything is fetched: with ranges nobody fetches, and `partitions` leaves others alone.
        self._consumer.pause(*(tp for tp in assigned if is_idle or not settings.takes(tp.partition)))
        self._owner.on_assigned([PartitionKey(*tp) for tp in assigned])

    def _renewed(self, sent_ns: int, is_rebalancing: bool) -> None:  # a callback
        """Extend the membership: the broker has answered what was sent at `sent_ns`."""
        # An answer that asks to join says that a rebalance has begun: rebalanceTimeout counts from the one
        # before.
        if not is_rebalancing:
            self._settled_ns = sent_ns
        self._owner.on_renewed(membership_end_ns(self._settings, sent_ns, self._settled_ns))


def membership_end_ns(settings: KafkaSettings, sent_ns: int, settled_ns: int) -> int:
    """Return until when the group keeps a member that goes silent, or doesn't join a rebalance in time.

    The broker has answered what was sent at `sent_ns`; it last did so without asking to join at `settled_ns`.
    """
    session_end_ns = sent_ns + int(settings.session_timeout_seconds * 1e9)
    return min(session_end_ns, settled_ns + int(settings.rebalance_timeout_seconds * 1e9))

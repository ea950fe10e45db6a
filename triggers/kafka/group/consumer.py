"""Membership by the protocol `consumer` (KIP-848): only what moves stops, and aiokafka just fetches."""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from headrace.runtime.partitions.key import PartitionKey, describe_partitions
from headrace.runtime.tasks import end_tasks, outcome, start_task
from headrace.triggers.kafka.client.subscriptions import drop, place, read_by_hand, read_topics
from headrace.triggers.kafka.group.kip848.machine import GroupSettings
from headrace.triggers.kafka.group.kip848.session import GroupSession
from headrace.triggers.kafka.group.membership import GroupMembershipListener
from headrace.triggers.kafka.settings.model import KafkaSettings

logger = logging.getLogger(__name__)

_WAITS_FACTOR = 1.2
"""Factor on the waits: commits and heartbeats come after them."""
_MIN_REBALANCE_SECONDS = 15.0
"""Three heartbeats, by a broker's default: with less, a member that misses none may be out of time."""


class ConsumerMembership:
    """A GroupMembership over a GroupSession, whose listener it is."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        admin: AIOKafkaAdminClient,
        settings: KafkaSettings,
        waits_seconds: float,
        owner: GroupMembershipListener,
    ) -> None:
        """`waits_seconds`: what a partition that leaves may take; rebalanceTimeout must have room for it."""
        self._consumer = consumer
        self._owner = owner
        self._is_idle = settings.delivery == "ranges"  # nothing is fetched then, but positions are asked for
        group = GroupSettings(
            settings.consumer_group,
            max(settings.rebalance_timeout_seconds, _WAITS_FACTOR * waits_seconds, _MIN_REBALANCE_SECONDS),
            settings.group_remote_assignor,
            settings.group_instance_id,
        )
        self.session = GroupSession(admin, group, self, str(settings.access))
        self._heartbeats: asyncio.Task[None] | None = None
        self._releases: set[asyncio.Task[None]] = set()
        self._is_losing = False
        # The consumer is in no group: what it fetches is said partition by partition, and the rest goes on.
        read_by_hand(consumer)

    @property
    def problem(self) -> str:
        """Why the coordinator doesn't take it; empty where it does."""
        return self.session.problem

    @property
    def generation(self) -> int | None:
        """The number of the membership. What it has changes within one."""
        return self.session.membership

    def subscribe(self, topics: Collection[str]) -> None:
        """Join by the first heartbeat, which a task of its own sends."""
        self.resubscribe(topics)
        # Not one of the trigger's tasks: it goes on while a stop waits for handlers.
        self._heartbeats = asyncio.create_task(self.session.run_forever(), name="heartbeats")

    def resubscribe(self, topics: Collection[str]) -> bool:
        """Read these topics from the next heartbeat on, which goes out now. Return True."""
        read_topics(self._consumer, topics)
        self.session.subscribe(topics)
        return True

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Fetch the partition from there on; the first time it begins to be fetched."""
        place(self._consumer, tp, offset, is_paused=self._is_idle)

    def drop(self, keys: Iterable[PartitionKey]) -> None:
        """Fetch these no more. All others go on being fetched as they were."""
        drop(self._consumer, [TopicPartition(*key) for key in keys])

    async def watch(self) -> None:
        """Raise what ends the heartbeats, which nobody else awaits."""
        assert self._heartbeats is not None
        await outcome(self._heartbeats)

    async def leave(self) -> None:
        """Leave the group at once, and stop the consumer. Raises KafkaError."""
        # A stop has given everything back: what these still wait for is nobody's business any more.
        await end_tasks(self._releases)
        if self._heartbeats is not None:
            await end_tasks([self._heartbeats])
        try:
            await self.session.leave()
        finally:
            await self._consumer.stop()

    def status(self) -> Mapping[str, Any]:
        """Return what it is in its group, in Kafka's words."""
        machine, neighbours = self.session.machine, self.session.move_history
        return {
            "generation": self.generation,
            "groupProtocol": "consumer",
            "memberId": self.session.member_id,
            "memberEpoch": machine.epoch,
            "memberState": machine.state.value,
            "lastMove": {
                "from": {str(key): whom for key, whom in neighbours.came.items()},
                "to": {str(key): whom for key, whom in neighbours.went.items()},
            },
        }

    # ---- the session's word

    def on_renewed(self, end_ns: int) -> None:
        """Pass it on to the trigger."""
        self._owner.on_renewed(end_ns)

    def on_assigned(self, keys: Collection[PartitionKey]) -> None:
        """Pass it on to the trigger."""
        self._owner.on_assigned(keys)

    def on_revoked(self, keys: Collection[PartitionKey]) -> None:
        """Have a task wait for what runs in them."""
        self._start_release(keys, is_lost=False)

    def on_lost(self, keys: Collection[PartitionKey]) -> None:
        """Have a task end what runs in them; also in those that were being given up."""
        # A loss ends what was being given up as well: no release of before may be told to the new membership.
        self._is_losing = True
        self._start_release(keys, is_lost=True)

    def _start_release(self, keys: Collection[PartitionKey], *, is_lost: bool) -> None:
        task = start_task(self._release(keys, is_lost=is_lost), "release")
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def _release(self, keys: Collection[PartitionKey], *, is_lost: bool) -> None:
        began = time.monotonic()
        # Returns once nothing of them is in flight and the last commit is through. Only then is the group
        # told.
        await self._owner.on_revoked(None if is_lost else keys, is_lost=is_lost)
        if is_lost:
            self._is_losing = False
        if not self._is_losing:  # else that task releases these too: it must end before the next join
            self.session.released(keys)
            why = "the group had gone on without it" if is_lost else "the broker has others for it"
            message = "group %s: %s given up, %.1f s after it was heard that %s"
            group = self.session.settings.group
            logger.info(message, group, describe_partitions(keys), time.monotonic() - began, why)

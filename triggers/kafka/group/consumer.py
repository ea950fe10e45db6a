"""A membership by the protocol `consumer`: only what moves stops, and aiokafka just fetches."""

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

_ROOM = 1.2
"""Of the waits: commits and heartbeats come after them."""
_LEAST_SECONDS = 15.0
"""Three of a broker's heartbeats, by its default: with less, a member that misses none may be out of time."""


class ConsumerMembership:
    """Keeps Membership, and the session's GroupMembershipListener."""

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
            max(settings.rebalance_timeout_seconds, _ROOM * waits_seconds, _LEAST_SECONDS),
            settings.group_remote_assignor,
            settings.group_instance_id,
        )
        self.session = GroupSession(admin, group, self, str(settings.access))
        self._heartbeats: asyncio.Task[None] | None = None
        self._releases: set[asyncio.Task[None]] = set()
        self._is_losing = False
        read_by_hand(consumer)

    @property
    def problem(self) -> str:
        """Why the coordinator doesn't take it."""
        return self.session.problem

    @property
    def generation(self) -> int | None:
        """Of the membership, not of what it has: that changes within one."""
        return self.session.membership

    def subscribe(self, topics: Collection[str]) -> None:
        """By the first heartbeat."""
        self.resubscribe(topics)
        # Not one of the trigger's tasks: it goes on while a stop waits for handlers.
        self._heartbeats = asyncio.create_task(self.session.run_forever(), name="heartbeats")

    def resubscribe(self, topics: Collection[str]) -> bool:
        """By the next one, which goes out now."""
        read_topics(self._consumer, topics)
        self.session.subscribe(topics)
        return True

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """The first time has it fetched from then on."""
        place(self._consumer, tp, offset, is_paused=self._is_idle)

    def drop(self, keys: Iterable[PartitionKey]) -> None:
        """All others go on being fetched as they were."""
        drop(self._consumer, [TopicPartition(*key) for key in keys])

    async def watch(self) -> None:
        """Over heartbeats, which nobody else awaits."""
        assert self._heartbeats is not None
        await outcome(self._heartbeats)

    async def leave(self) -> None:
        """The coordinator is told at once."""
        await end_tasks(self._releases)
        if self._heartbeats is not None:
            await end_tasks([self._heartbeats])
        try:
            await self.session.leave()
        finally:
            await self._consumer.stop()

    def status(self) -> Mapping[str, Any]:
        """Kafka's words for it."""
        machine, neighbours = self.session.machine, self.session.neighbours
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
        """To the trigger."""
        self._owner.on_renewed(end_ns)

    def on_assigned(self, keys: Collection[PartitionKey]) -> None:
        """To the trigger."""
        self._owner.on_assigned(keys)

    def on_revoked(self, keys: Collection[PartitionKey]) -> None:
        """A task waits for what runs in them."""
        self._start_release(keys, is_lost=False)

    def on_lost(self, keys: Collection[PartitionKey]) -> None:
        """A task ends what runs in them; also in those that were being given up."""
        self._is_losing = True
        self._start_release(keys, is_lost=True)

    def _start_release(self, keys: Collection[PartitionKey], *, is_lost: bool) -> None:
        task = start_task(self._release(keys, is_lost=is_lost), "release")
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def _release(self, keys: Collection[PartitionKey], *, is_lost: bool) -> None:
        began = time.monotonic()
        await self._owner.on_revoked(None if is_lost else keys, is_lost=is_lost)
        if is_lost:
            self._is_losing = False
        if not self._is_losing:  # else that task releases these too: it must end before the next join
            self.session.released(keys)
            why = "the group had gone on without it" if is_lost else "the broker has others for it"
            message = "group %s: %s given up, %.1f s after it was heard that %s"
            group = self.session.settings.group
            logger.info(message, group, describe_partitions(keys), time.monotonic() - began, why)

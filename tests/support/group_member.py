"""A member of a group by the protocol `consumer`, without a trigger: what it was told, in order."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.tasks import end_tasks
from headrace.triggers.kafka.group.kip848.machine import GroupSettings
from headrace.triggers.kafka.group.kip848.session import GroupSession


class GroupMember:
    """Keeps Owner. Releases at once what is revoked, but for what it `keeps`."""

    def __init__(self, admin: AIOKafkaAdminClient, settings: GroupSettings) -> None:
        self.session = GroupSession(admin, settings, self, "the broker")
        self.has: set[PartitionKey] = set()
        self.said: list[tuple[str, tuple[PartitionKey, ...]]] = []
        self.keeps = False
        self.end_ns = 0
        self._changed = asyncio.Event()
        self.heartbeats: asyncio.Task[None] | None = None

    def on_renewed(self, end_ns: int) -> None:
        self.end_ns = end_ns
        self._changed.set()

    def on_assigned(self, keys: Collection[PartitionKey]) -> None:
        self.said.append(("assigned", tuple(sorted(keys))))
        self.has |= set(keys)
        self._changed.set()

    def on_revoked(self, keys: Collection[PartitionKey]) -> None:
        self.said.append(("revoked", tuple(sorted(keys))))
        if not self.keeps:
            self.release(keys)
        self._changed.set()

    def on_lost(self, keys: Collection[PartitionKey]) -> None:
        self.said.append(("lost", tuple(sorted(keys))))
        self.release(keys)
        self._changed.set()

    def release(self, keys: Collection[PartitionKey]) -> None:
        self.has -= set(keys)
        self.session.released(keys)

    def start(self, *topics: str) -> None:
        self.session.subscribe(topics)
        self.heartbeats = asyncio.create_task(self.session.run_forever())

    async def until(self, is_so: Callable[[], bool], seconds: float = 30) -> None:
        async with asyncio.timeout(seconds):
            while not is_so():
                self._changed.clear()
                await self._changed.wait()

    async def leave(self) -> None:
        if self.heartbeats is not None:
            await end_tasks([self.heartbeats])
            self.heartbeats = None
            await self.session.leave()


@asynccontextmanager
async def members(
    bootstrap: str, group: str, count: int, *instances: str
) -> AsyncIterator[list[GroupMember]]:
    """None of them has joined yet. All have left at the end."""
    admins = [AIOKafkaAdminClient(bootstrap_servers=bootstrap) for _ in range(count)]
    names = [*instances, *[""] * count]
    found = []
    try:
        for admin, name in zip(admins, names, strict=False):
            await admin.start()
            found.append(GroupMember(admin, GroupSettings(group, 20.0, instance_id=name)))
        yield found
    finally:
        for member in found:
            await member.leave()
        for admin in admins:
            await admin.close()

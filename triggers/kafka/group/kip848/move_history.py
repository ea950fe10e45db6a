"""Whom partitions come from and go to, as the coordinator tells. For people: nothing waits for it."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from aiokafka.errors import KafkaError

from headrace.runtime.kafka.protocol import DescribeConsumerGroup
from headrace.runtime.partitions.key import PartitionKey, describe_partitions
from headrace.runtime.tasks import end_tasks, start_task
from headrace.triggers.kafka.group.kip848.coordinator import Coordinator
from headrace.triggers.kafka.group.kip848.machine import PartitionMoves

logger = logging.getLogger(__name__)

_UNKNOWN = "a member that has left"
_NOBODY = "nobody yet"
Others = Mapping[PartitionKey, str]
"""Client ids, with their hosts."""


class MoveHistory:
    """Looks after each change of the group. `came` and `went` are what moved here last."""

    def __init__(self, coordinator: Coordinator, group: str, member_id: Callable[[], str]) -> None:
        self.came: Others = {}
        self.went: Others = {}
        self._coordinator, self._group, self._member_id = coordinator, group, member_id
        self._had: Others = {}  # by the look before
        self._looks: set[asyncio.Task[None]] = set()

    def on_changed(self, moves: PartitionMoves) -> None:
        """The group is another one than before, and these have moved here."""
        look = start_task(self._look(moves), "neighbours")
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)

    async def close(self) -> None:
        """Nobody is to know any more."""
        await end_tasks(self._looks)

    async def _look(self, moves: PartitionMoves) -> None:
        try:
            (group,) = (await self._coordinator.ask_aside(DescribeConsumerGroup(self._group))).groups
            _, _, _, _, _, _, _, members, *_ = group
            others = [member for member in members if member[0] != self._member_id()]
            have, get = _by_partition(others, _HAS), _by_partition(others, _GETS)
        except (KafkaError, NotImplementedError, TimeoutError, ValueError, AttributeError) as error:
            logger.debug("who is in group %s can't be asked: %r", self._group, error)
            return
        if moves.given or moves.revoked:
            before = {**have, **self._had}
            self.came = {key: before.get(key, _UNKNOWN) for key in moves.given}
            self.went = {key: get.get(key, have.get(key, _NOBODY)) for key in moves.revoked}
            self._say("from", self.came)
            self._say("to", self.went)
        self._had = have

    def _say(self, way: str, moved: Others) -> None:
        by_whom: dict[str, list[PartitionKey]] = {}
        for key, whom in moved.items():
            by_whom.setdefault(whom, []).append(key)
        for whom, keys in sorted(by_whom.items()):
            logger.info("group %s: %s moved %s %s", self._group, describe_partitions(keys), way, whom)


_HAS, _GETS = 8, 9  # where a described member has its assignment, and the one that it is to have


def _by_partition(members: Collection[tuple[Any, ...]], where: int) -> dict[PartitionKey, str]:
    return {
        PartitionKey(topic, number): f"{member[4]} at {member[5].removeprefix('/')}"
        for member in members
        for _, topic, numbers, _ in member[where][0]
        for number in numbers
    }

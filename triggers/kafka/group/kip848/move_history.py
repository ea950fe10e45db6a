"""Members that partitions came from and went to, as the coordinator tells.

For people: nothing waits for it.
"""

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
_NO_MEMBER_YET = "nobody yet"
Others = Mapping[PartitionKey, str]
"""Members by partition: client ids, with their hosts."""


class MoveHistory:
    """The last move of partitions, looked up after each change of the group.

    `came` and `went` are what moved here last.
    """

    def __init__(self, coordinator: Coordinator, group: str, member_id: Callable[[], str]) -> None:
        self.came: Others = {}
        self.went: Others = {}
        self._coordinator, self._group, self._member_id = coordinator, group, member_id
        self._had: Others = {}  # by the look before
        self._tasks: set[asyncio.Task[None]] = set()

    def on_changed(self, moves: PartitionMoves) -> None:
        """Look up who has what: the group is another one than before, and these have moved here."""
        task = start_task(self._record(moves), "neighbours")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop looking up."""
        await end_tasks(self._tasks)

    async def _record(self, moves: PartitionMoves) -> None:
        try:
            (group,) = (await self._coordinator.ask_in_background(DescribeConsumerGroup(self._group))).groups
            _, _, _, _, _, _, _, members, *_ = group
            # This member's own rows say nothing of whom partitions come from or go to.
            others = [member for member in members if member[0] != self._member_id()]
            have, get = _by_partition(others, _ASSIGNED), _by_partition(others, _TARGET)
        except (KafkaError, NotImplementedError, TimeoutError, ValueError, AttributeError) as error:
            logger.debug("who is in group %s can't be asked: %r", self._group, error)
            return
        if moves.given or moves.revoked:
            # Who had them is told by the look before: by now they are nobody's, or this member's.
            before = {**have, **self._had}
            self.came = {key: before.get(key, _UNKNOWN) for key in moves.given}
            self.went = {key: get.get(key, have.get(key, _NO_MEMBER_YET)) for key in moves.revoked}
            self._log("from", self.came)
            self._log("to", self.went)
        self._had = have

    def _log(self, way: str, moved: Others) -> None:
        by_whom: dict[str, list[PartitionKey]] = {}
        for key, whom in moved.items():
            by_whom.setdefault(whom, []).append(key)
        for whom, keys in sorted(by_whom.items()):
            logger.info("group %s: %s moved %s %s", self._group, describe_partitions(keys), way, whom)


_ASSIGNED, _TARGET = 8, 9  # where a described member has its assignment, and the one that it is to have


def _by_partition(members: Collection[tuple[Any, ...]], where: int) -> dict[PartitionKey, str]:
    return {
        PartitionKey(topic, number): f"{member[4]} at {member[5].removeprefix('/')}"
        for member in members
        for _, topic, numbers, _ in member[where][0]
        for number in numbers
    }

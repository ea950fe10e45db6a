"""Garbage from other members of a classic group, borne with. Reaches into aiokafka, pinned to 0.14.

Any program may be in the group, and say any bytes. By default, what the leader can't read of one member fails
the join of all, and an assignment that a member can't read, or of topics that it doesn't read, ends its
consumer.
"""

import logging
from collections.abc import Collection
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from aiokafka.errors import KafkaError

from headrace.runtime.errors import one_line

logger = logging.getLogger(__name__)

_NOTHING = ConsumerProtocolMemberAssignment(0, [], b"").encode()
_VERSION = 0


def tolerate_foreign_members(consumer: AIOKafkaConsumer, group: str) -> None:
    """Give foreign members with garbage nothing, and let a foreign leader's garbage be a failed join."""
    coordinator: Any = consumer._coordinator  # noqa: SLF001
    assign, complete = coordinator._perform_assignment, coordinator._on_join_complete  # noqa: SLF001
    said = ""

    async def perform_assignment(response: Any) -> Any:
        nonlocal said
        response.members, odd = readable_members(response.members)
        who = one_line(", ".join(odd))
        line = f"members of group {group} say nothing that can be read, and are given nothing: {who}"
        if odd and line != said:
            logger.warning("%s", line)
        said = line if odd else ""
        try:
            return await assign(response)
        except (KafkaError, AssertionError):
            raise
        # This once by the plainest assignor, which looks at nothing but topics.
        except Exception as error:  # sticky: what a member says that it had, or reads, may be odd
            logger.warning("group %s is shared out as by balanceStrategy range, this once (%r)", group, error)
            coordinator._lookup_assignor = lambda _name: RangePartitionAssignor  # noqa: SLF001
            try:
                return await assign(response)
            finally:
                del coordinator._lookup_assignor  # noqa: SLF001  # the class has its own

    async def on_join_complete(generation: int, member_id: str, protocol: str, given: bytes) -> None:
        try:
            mine, others = readable_assignment(given, consumer.subscription())
        except ValueError as error:
            # Another rebalance may bring another leader, or a better answer.
            coordinator.request_rejoin()
            raise KafkaError(f"the leader of group {group} gives an assignment that can't be read") from error
        if others:
            message = "the leader of group %s gives partitions of topics that are not read here: %s"
            logger.warning(message, group, one_line(", ".join(sorted(others))))
        await complete(generation, member_id, protocol, mine)

    coordinator._perform_assignment = perform_assignment  # noqa: SLF001
    coordinator._on_join_complete = on_join_complete  # noqa: SLF001


def readable_members(members: Collection[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return each member with what it can be taken to say, and the ids of those who say nothing."""
    found, odd = [], []
    for *who, said in members:
        metadata = _metadata(said)
        if metadata is None:
            odd.append(str(who[0]))
            metadata = ConsumerProtocolMemberMetadata(_VERSION, [], b"")
        found.append((*who, metadata.encode()))
    return found, odd


def readable_assignment(given: bytes, topics: Collection[str]) -> tuple[bytes, set[str]]:
    """Return what of an assignment is of these topics, and which others are in it. Raises ValueError.

    No bytes are an empty assignment.
    """
    try:
        rows = ConsumerProtocolMemberAssignment.decode(given or _NOTHING).assignment
        mine = [(topic, [it for it in numbers if it >= 0]) for topic, numbers in rows if topic in topics]
    except Exception as error:
        raise ValueError("no assignment") from error
    others = {str(topic) for topic, _ in rows if topic not in topics}
    return ConsumerProtocolMemberAssignment(_VERSION, mine, b"").encode(), others


def _metadata(said: bytes | None) -> ConsumerProtocolMemberMetadata | None:
    """Return a member's metadata, with each topic once, or None where it can't be read.

    The range assignor would lose partitions of a topic that is named twice.
    """
    try:
        metadata = ConsumerProtocolMemberMetadata.decode(said)
        topics = dict.fromkeys(topic for topic in metadata.subscription if topic)
        return ConsumerProtocolMemberMetadata(_VERSION, list(topics), metadata.user_data)
    except Exception:  # whatever it is, it is theirs
        return None

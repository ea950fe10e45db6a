"""Consumer groups on any broker, seen from outside: who is in them, and how far they are."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from headrace.runtime.errors import BrokerError, HeadraceError
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.client import connected
from headrace.runtime.kafka.topics import end_offsets, know_topics

ANSWER_SECONDS = 10.0
_RETRY_SECONDS = 0.2
_WITHOUT_CONSUMERS = {"share": "a share group", "streams": "a group of Kafka Streams"}
_DEAD = "Dead"  # what a broker says of a group that it doesn't know

T = TypeVar("T")


class NoSuchGroupError(HeadraceError):
    """The broker knows no such group, which would have a member or a commit."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """A consumer in a group, and the (topic, partition) pairs that it has."""

    client: str
    host: str
    partitions: tuple[tuple[str, int], ...]
    epoch: int | None = None
    """The member's epoch, with the protocol `consumer`: below the group's while partitions of it move."""


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A consumer group. `state` is Kafka's word: Stable, Empty (commits, no members) ..."""

    name: str
    state: str
    members: tuple[ConsumerGroupMember, ...]
    protocol: str = "classic"
    epoch: int | None = None
    """The group's epoch, with the protocol `consumer`."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """`committed` is None where the group has no commit, `end` where the partition isn't there any more."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    client: str | None

    @property
    def lag(self) -> int | None:
        """Records from the commit to the end; None where either is missing."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


async def list_groups(brokers: BrokerAccess) -> list[ConsumerGroup]:
    """Return all consumer groups, by name."""
    from aiokafka.admin import AIOKafkaAdminClient

    async with connected(AIOKafkaAdminClient, brokers) as admin:
        listed = await ask_again(brokers, admin.list_consumer_groups)
        # "" is the kind of a group that has committed and never had a member
        # Share groups and Kafka Streams' groups are other kinds.
        names = sorted(name for name, kind in listed if kind in {"consumer", ""})
        groups = [await _describe(admin, brokers, name) for name in names]
    # A group may be deleted after it was listed: then it is described as dead.
    return [group for group in groups if group.state != _DEAD]


async def why_no_consumers(admin: Any, name: str) -> str:
    """Return why a group takes no consumers by either protocol; "" where it may, or nobody answers."""
    from aiokafka.errors import KafkaError

    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            kind = dict(await admin.list_consumer_groups()).get(name)
    except (KafkaError, TimeoutError):
        return ""
    if kind not in _WITHOUT_CONSUMERS:
        return ""
    what = _WITHOUT_CONSUMERS[kind]
    return f"group {name} is {what}, which has no place for consumers: take another consumerGroup"


async def read_lag(brokers: BrokerAccess, name: str) -> tuple[ConsumerGroup, list[PartitionLag]]:
    """Return the group, and each partition that it has committed or that a member has.

    Raises NoSuchGroupError.
    """
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient

    async with connected(AIOKafkaAdminClient, brokers) as admin:
        group = await existing_group(admin, brokers, name)
        commits = await read_commits(admin, brokers, name)
        clients = {place: member.client for member in group.members for place in member.partitions}
        places = sorted({*commits, *clients})
        topics = await admin.describe_topics(sorted({topic for topic, _ in places})) if places else []
    there = {(found["topic"], part["partition"]) for found in topics for part in found["partitions"]}
    async with connected(AIOKafkaConsumer, brokers) as consumer:
        await know_topics(consumer, {topic for topic, _ in there})
        ends = await end_offsets(consumer, [TopicPartition(*place) for place in places if place in there])
    return group, [
        PartitionLag(*place, commits.get(place), ends.get(TopicPartition(*place)), clients.get(place))
        for place in places
    ]


async def existing_group(admin: Any, brokers: BrokerAccess, name: str) -> ConsumerGroup:
    """Return the group. Raises NoSuchGroupError."""
    group = await _describe(admin, brokers, name)
    if group.state == _DEAD:
        raise NoSuchGroupError(
            f"there is no consumer group {name} at {brokers}: `headrace kafka groups` lists them"
        )
    return group


async def _describe(admin: Any, brokers: BrokerAccess, name: str) -> ConsumerGroup:
    """Describe one group: aiokafka misreads an answer about several."""
    from aiokafka.errors import for_code

    async def ask() -> Any:
        # It reads the newest answer by an older layout, which is right for one group only.
        (answer,) = await admin.describe_consumer_groups([name])
        if code := answer.groups[0][0]:
            raise for_code(code)
        return answer.groups[0]

    _, _, state, kind, _, members = await ask_again(brokers, ask)
    # A group of the protocol `consumer` is dead in the classic answer.
    if state == _DEAD and (found := await _describe_consumer(admin, brokers, name)) is not None:
        return found
    return ConsumerGroup(name, state, tuple(_member(kind, *member) for member in members))


async def _describe_consumer(admin: Any, brokers: BrokerAccess, name: str) -> ConsumerGroup | None:
    """Describe a group of the protocol `consumer`; None where it isn't one.

    The classic request describes such a group as dead.
    """
    from aiokafka.errors import GroupIdNotFound, IncompatibleBrokerVersion, for_code

    from headrace.runtime.kafka.protocol import DescribeConsumerGroup

    async def ask() -> Any:
        coordinator = await admin.find_coordinator(name)
        (group,) = (await admin._send_request(DescribeConsumerGroup(name), coordinator)).groups  # noqa: SLF001
        if group[0]:
            raise for_code(group[0])
        return group

    try:
        _, _, _, state, epoch, _, _, members, *_ = await ask_again(brokers, ask)
    except (GroupIdNotFound, IncompatibleBrokerVersion, NotImplementedError):
        return None
    return ConsumerGroup(name, state, tuple(map(_consumer_member, members)), "consumer", epoch)


def _consumer_member(described: tuple[Any, ...]) -> ConsumerGroupMember:
    _, _, _, epoch, client, host, _, _, (topics, _), *_ = described
    places = sorted((topic, number) for _, topic, numbers, _ in topics for number in numbers)
    # Brokers write an address as Java does, with a slash in front.
    return ConsumerGroupMember(client, host.removeprefix("/"), tuple(places), epoch)


def _member(
    kind: str, _id: str, client: str, host: str, _metadata: bytes, assignment: bytes
) -> ConsumerGroupMember:
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment

    # a member that joins has none yet; Kafka Connect's say something else
    is_given = assignment and kind == "consumer"
    given = ConsumerProtocolMemberAssignment.decode(assignment).partitions() if is_given else []
    return ConsumerGroupMember(
        client, host.removeprefix("/"), tuple((tp.topic, tp.partition) for tp in sorted(given))
    )


async def read_commits(admin: Any, brokers: BrokerAccess, name: str) -> dict[tuple[str, int], int]:
    """Return all offsets that the group has committed, by (topic, partition)."""
    # An offset of -1 says that there is no commit.
    found = await ask_again(brokers, lambda: admin.list_consumer_group_offsets(name))
    return {(tp.topic, tp.partition): commit.offset for tp, commit in found.items() if commit.offset >= 0}


async def ask_again(brokers: BrokerAccess, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the broker has an answer: a coordinator may be moving, or has just been made."""
    from aiokafka.errors import KafkaError

    last_error: KafkaError | None = None
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                try:
                    return await ask()
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    last_error = error
                await asyncio.sleep(_RETRY_SECONDS)
    except TimeoutError:
        raise no_answer(brokers, str(last_error or "it doesn't answer")) from None


def no_answer(brokers: BrokerAccess, said: str) -> BrokerError:
    """Return the error for a broker that hasn't answered within ANSWER_SECONDS."""
    return BrokerError(f"no answer from {brokers} in {ANSWER_SECONDS:g} s: {said}")

"""What other members of a group say may be anything: the leader shares out, and a member joins again."""

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyAssignorUserDataV1,
    StickyPartitionAssignor,
)
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataResponse_v1
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.runtime.kafka.guarded_connections import guard_connections
from headrace.triggers.kafka.client.foreign_members import (
    readable_assignment,
    readable_members,
    tolerate_foreign_members,
)

INTERNAL = "__consumer_offsets"
guard_connections()
ME = ("me", ConsumerProtocolMemberMetadata(0, ["t", "u"], b"").encode())
LISTS_THAT_ARE_NULL = (
    b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\0\0\xff\xff\xff\xfe\0\0\0\0",
    b"\0\0\x7f\xff\xff\xff",
)
names = st.sampled_from(["t", INTERNAL, "u", "none", "", "\n", None, "x" * 300])
numbers = st.integers(-3, 5) | st.integers(-(2**31), 2**31 - 1)
had = st.builds(
    lambda rows, generation: StickyAssignorUserDataV1(rows, generation).encode(),
    st.lists(st.tuples(names, st.lists(numbers, max_size=4)), max_size=4),
    numbers,
)
metadata = st.builds(
    lambda topics, data: ConsumerProtocolMemberMetadata(0, topics, data).encode(),
    st.lists(names, max_size=4),
    st.none() | st.binary(max_size=30) | had,
)
said = st.binary(max_size=40) | metadata | st.sampled_from(LISTS_THAT_ARE_NULL) | st.none()
assigned = st.builds(
    lambda rows: ConsumerProtocolMemberAssignment(0, rows, b"").encode(),
    st.lists(st.tuples(names, st.lists(numbers, max_size=4)), max_size=4),
)


def cluster() -> ClusterMetadata:
    """Of t, which has three partitions, and u, which has one."""
    found = ClusterMetadata()
    counts = {"t": 3, "u": 1, INTERNAL: 1}
    topics = [
        (0, name, name == INTERNAL, [(0, number, 1, [1], [1]) for number in range(count)])
        for name, count in counts.items()
    ]
    found.update_metadata(MetadataResponse_v1([(1, "localhost", 9092, None)], 1, topics))
    return found


class Consumer:
    """As much of one as is reached into."""

    def __init__(self, assignor: Any) -> None:
        self._coordinator: Any = self
        self.assignor, self.rejoins, self.completed = assignor, 0, b""

    async def _perform_assignment(self, response: Any) -> Any:
        decoded = {who: ConsumerProtocolMemberMetadata.decode(said) for who, said in response.members}
        return self._lookup_assignor("").assign(cluster(), decoded)

    def _lookup_assignor(self, _name: str) -> Any:
        return self.assignor

    async def _on_join_complete(self, _generation: int, _member: str, _protocol: str, given: bytes) -> None:
        self.completed = given

    def request_rejoin(self) -> None:
        self.rejoins += 1

    def subscription(self) -> set[str]:
        return {"t", "u"}


@pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor]
)
@settings(max_examples=examples(150), deadline=None)
@given(others=st.lists(said, max_size=4))
def test_each_partition_has_one_member_whatever_others_say(assignor: Any, others: list[bytes]) -> None:
    consumer = Consumer(assignor)
    tolerate_foreign_members(consumer, "g")
    members = [ME, *((f"m{number}", it) for number, it in enumerate(others))]
    shared = asyncio.run(consumer._perform_assignment(SimpleNamespace(members=members)))
    given_out = Counter(tp for it in shared.values() for tp in it.partitions() if tp.topic != INTERNAL)
    assert given_out == Counter(TopicPartition(*it) for it in (("t", 0), ("t", 1), ("t", 2), ("u", 0)))


@settings(max_examples=examples(200), deadline=None)
@given(given_=st.binary(max_size=40) | assigned)
def test_an_assignment_is_of_topics_that_are_read_or_none(given_: bytes) -> None:
    try:
        mine, _ = readable_assignment(given_, {"t"})
    except ValueError:
        return
    found = ConsumerProtocolMemberAssignment.decode(mine).partitions()
    assert all(tp.topic == "t" and tp.partition >= 0 for tp in found)


async def test_an_assignment_that_cannot_be_read_is_a_join_that_has_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    consumer = Consumer(RangePartitionAssignor)
    tolerate_foreign_members(consumer, "g")
    with pytest.raises(KafkaError, match="leader of group g gives an assignment that can't be read"):
        await consumer._on_join_complete(1, "me", "range", b"\0")
    assert consumer.rejoins == 1
    foreign = ConsumerProtocolMemberAssignment(0, [("x\n", [0]), ("t", [1, -1])], b"").encode()
    await consumer._on_join_complete(1, "me", "range", foreign)
    assert ConsumerProtocolMemberAssignment.decode(consumer.completed).partitions() == [
        TopicPartition("t", 1)
    ]
    assert caplog.messages == [
        "the leader of group g gives partitions of topics that are not read here: x\\n"
    ]
    await consumer._on_join_complete(2, "me", "range", b"")
    assert ConsumerProtocolMemberAssignment.decode(consumer.completed).partitions() == []


async def test_who_says_nothing_that_can_be_read_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    consumer = Consumer(RangePartitionAssignor)
    tolerate_foreign_members(consumer, "g")
    for _ in range(2):
        await consumer._perform_assignment(SimpleNamespace(members=[ME, ("other\n1", b"\1"), ("o2", None)]))
    (line,) = caplog.messages
    assert line == "members of group g say nothing that can be read, and are given nothing: other\\n1, o2"
    assert readable_members([("me", None, ME[1])]) == ([("me", None, ME[1])], [])

"""A group's offsets, where commits carry the epoch of a member of the protocol `consumer`."""

from collections.abc import Mapping, Sequence

from aiokafka import AIOKafkaConsumer

from headrace.runtime.partitions.books.held import Outgoing
from headrace.runtime.partitions.key import PartitionKey
from headrace.triggers.kafka.group.commits import MemberCommits
from headrace.triggers.kafka.group.session import Session
from headrace.triggers.kafka.group_offsets import GroupOffsets


class MemberOffsets(GroupOffsets):
    """Keeps OffsetStore, under the member's epoch."""

    def __init__(self, consumer: AIOKafkaConsumer, session: Session) -> None:
        super().__init__(consumer)
        self._commits = MemberCommits(session)

    @property
    def generation(self) -> int | None:
        """Of the membership."""
        return self._commits.generation

    async def write(
        self,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> Mapping[PartitionKey, str]:
        """One request. Messages with it aren't built: a rule refuses them."""
        assert not outgoing
        return await self._commits.write(offsets)

"""A group's offsets, where commits carry the epoch of a member of the protocol `consumer`."""

from collections.abc import Collection, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.pending_produces import Outgoing
from headrace.triggers.kafka.client.commits import Commit
from headrace.triggers.kafka.client.topics import shown_id
from headrace.triggers.kafka.group.kip848.commits import MemberCommits
from headrace.triggers.kafka.group.session import GroupSession
from headrace.triggers.kafka.group_offsets import GroupOffsets


class MemberOffsets(GroupOffsets):
    """Keeps OffsetStore, under the member's epoch."""

    def __init__(self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient, session: GroupSession) -> None:
        super().__init__(consumer, admin, session.settings.group)
        self._session = session
        self._commits = MemberCommits(session)

    @property
    def generation(self) -> int | None:
        """Of the membership."""
        return self._commits.generation

    async def read(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Commit]:
        """As the coordinator tells its members."""
        found = await self._commits.read([PartitionKey(*tp) for tp in partitions])
        return {TopicPartition(*key): commit for key, commit in found.items()}

    def given_id(self, key: PartitionKey) -> str | None:
        """By the last answer; none of what isn't held."""
        topic_id, _ = self._session.machine.holdings.held.get(key, (b"", 0))
        return shown_id(topic_id)

    async def write(
        self,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> Mapping[PartitionKey, str]:
        """One request. Messages with it aren't built: a rule refuses them."""
        assert not outgoing
        return await self._commits.write(offsets)

"""The consumer group's offsets on the broker, with what Headrace keeps beside each."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    CommitFailedError,
    InvalidCommitOffsetSizeError,
    KafkaError,
    OffsetMetadataTooLargeError,
)

from headrace.runtime.kafka.topics import read_config
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import MAX_TEXT_CHARS, CheckpointText, Encoded
from headrace.runtime.partitions.offsets.pending_produces import Outgoing
from headrace.runtime.streams.offset_store import CommitRefusedError, TextTooLongError
from headrace.triggers.kafka.client.commits import Commit, PartitionsRefusedError, fetch_commits
from headrace.triggers.kafka.client.internals import generation
from headrace.triggers.kafka.client.topics import shown_id
from headrace.triggers.kafka.group.kip848.commits import MemberCommits
from headrace.triggers.kafka.group.kip848.session import GroupSession
from headrace.triggers.kafka.settings.model import KafkaSettings
from headrace.triggers.kafka.start_offsets import GroupTopics


class GroupOffsets:
    """Keeps OffsetStore."""

    max_text_chars = MAX_TEXT_CHARS
    # A broker writes a request as one batch, of 1 MiB at most by default; beyond, its error says nothing.
    max_request_chars = 512 * 1024
    has_messages = False
    """Messages are written with commits: what an earlier one has said to be done has to stay said."""

    def __init__(self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient, group: str) -> None:
        self.topics = GroupTopics()
        """Every commit carries it on."""
        self.begun: dict[PartitionKey, str] = {}
        """Id of the topic by which each has begun: the one that its offsets are of, whatever has its name."""
        self._consumer, self._admin, self._group = consumer, admin, group

    @property
    def generation(self) -> int | None:
        """aiokafka tries again under whatever is current, where a partition may be somebody else's."""
        return generation(self._consumer)

    def encode(self, key: PartitionKey, checkpoint: Checkpoint, max_chars: int) -> Encoded:
        """As the next owner reads it."""
        topics, name = self.topics, key.topic
        first = tuple(sorted(topics.first or ()))
        text = CheckpointText(topics.first_partition_counts[name], checkpoint, self.begun.get(key, ""), first)
        return text.encode(max_chars, runs_first=self.has_messages)

    async def begin(self, keys: Collection[PartitionKey]) -> None:
        """What these need before their commits are read: nothing."""

    async def read(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Commit]:
        """What the group has committed of these; those without a commit are left out. Raises KafkaError."""
        return await fetch_commits(self._admin, self._group, sorted(partitions))

    def given_id(self, key: PartitionKey) -> str | None:
        """The group goes by names."""
        return None

    async def write(
        self,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> Mapping[PartitionKey, str]:
        """One request. Without messages: see Transactions."""
        assert not outgoing
        try:
            await self._consumer.commit({TopicPartition(*key): offset for key, offset in offsets.items()})
        except PartitionsRefusedError as refused:
            return {PartitionKey(*tp): type(error).__name__ for tp, error in refused.errors.items()}
        except (OffsetMetadataTooLargeError, InvalidCommitOffsetSizeError) as error:
            raise TextTooLongError(str(error) or type(error).__name__) from error
        except CommitFailedError as error:
            raise CommitRefusedError("the group has gone on without this replica") from error
        except KafkaError as error:
            raise CommitRefusedError(str(error) or type(error).__name__) from error
        return {}

    async def close(self) -> None:
        """Nothing is committed any more."""


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


logger = logging.getLogger(__name__)


_RETENTION = "offsets.retention.minutes"


_ANSWER_SECONDS = 3.0


async def log_commit_expiry(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> None:
    """Say once what a long stop does where initialOffset is latest.

    Once they are gone nobody can tell: the group is as if it had never been.
    """
    if settings.initial_offset != "latest":
        return
    retention = await _retention(admin)
    logger.info(
        "initialOffset is latest: if group %s is left by all for longer than the broker's %s%s, its commits "
        "are gone, and what came meanwhile is skipped",
        settings.consumer_group,
        _RETENTION,
        f" ({retention})" if retention else "",
    )


async def _retention(admin: AIOKafkaAdminClient) -> str:
    """As one broker says it; empty where this user may not ask, or nobody answers."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            broker = next(iter(admin._client.cluster.brokers()))  # noqa: SLF001  # describe_cluster asks for all topics
            return (await read_config(admin, "broker", str(broker.nodeId))).get(_RETENTION, "")
    except (KafkaError, TimeoutError, StopIteration):
        return ""

"""Offsets of a consumer group on the broker, with what Headrace keeps beside each."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    InvalidCommitOffsetSizeError,
    KafkaError,
    OffsetMetadataTooLargeError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from headrace.runtime.kafka.topics import read_config
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import MAX_TEXT_CHARS, CheckpointText, Encoded
from headrace.runtime.streams.offset_store import CommitRefusedError, TextTooLongError
from headrace.runtime.wire.produce import Outgoing
from headrace.triggers.kafka.client.commits import (
    Commit,
    PartitionsRefusedError,
    fetch_commits,
    unanswered_at,
)
from headrace.triggers.kafka.client.internals import generation
from headrace.triggers.kafka.client.topics import shown_id
from headrace.triggers.kafka.group.kip848.commits import MemberCommits
from headrace.triggers.kafka.group.kip848.session import GroupSession
from headrace.triggers.kafka.settings.model import KafkaSettings

logger = logging.getLogger(__name__)
_RETENTION = "offsets.retention.minutes"
_ANSWER_SECONDS = 3.0
_START_SECONDS = 10.0  # the client would wait for a leader for a minute
_RETRY_SECONDS = 0.5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GroupTopics:
    """Facts about the trigger's topics that every commit carries on; `first` is of all, the rest by name.

    `ids`, and how many partitions each had when the group came to it: 0 where it has appeared since. `first`:
    the ids of those that were there when the group came to any; None before anybody has looked. `gone`: ids
    that others have followed. A broker that lags behind may still tell of them.
    """

    ids: Mapping[str, str] = field(default_factory=dict)
    first_partition_counts: Mapping[str, int] = field(default_factory=dict)
    first: frozenset[str] | None = None
    gone: frozenset[str] = frozenset()

    def is_made_anew(self, name: str, topic_id: str) -> bool:
        """Whether the topic of that name isn't the one that is known."""
        return self.ids.get(name, topic_id) != topic_id and topic_id not in self.gone

    def merged(self, other: "GroupTopics") -> "GroupTopics":
        """Return this with what another look has found, which may have begun before this was known."""
        gone = self.gone | other.gone
        # An id that others have followed stays gone, whichever look is the later one.
        known = {name: it for name, it in other.ids.items() if it not in gone or name not in self.ids}
        counts = {name: other.first_partition_counts[name] for name in known}
        first = other.first if self.first is None else self.first & (other.first or self.first)
        return GroupTopics({**self.ids, **known}, {**self.first_partition_counts, **counts}, first, gone)

    def with_anew(self, name: str, topic_id: str) -> "GroupTopics":
        """Return this after the topic of that name was made anew."""
        ids, counts = {**self.ids, name: topic_id}, {**self.first_partition_counts, name: 0}
        return GroupTopics(ids, counts, self.first, self.gone | {self.ids[name]} - {topic_id})


class GroupOffsets:
    """The offset store of a group of the protocol `classic`, by aiokafka's commits.

    An OffsetStore of runtime/streams.
    """

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
    def unanswered_at(self) -> float:
        """Return when a commit was last left without an answer, by time.monotonic; -inf before one was."""
        return unanswered_at(self._consumer)

    @property
    def generation(self) -> int | None:
        """The group's generation: aiokafka commits under whatever is current.

        A partition may be somebody else's by then.
        """
        return generation(self._consumer)

    def encode(self, key: PartitionKey, checkpoint: Checkpoint, max_chars: int) -> Encoded:
        """Return a commit's text, which the next owner reads."""
        topics, name = self.topics, key.topic
        # The first partition count tells a partition that has appeared since from one that another replica of
        # the same start hasn't committed yet; the ids tell the same of topics.
        first = tuple(sorted(topics.first or ()))
        text = CheckpointText(topics.first_partition_counts[name], checkpoint, self.begun.get(key, ""), first)
        return text.encode(max_chars, runs_first=self.has_messages)

    async def begin(self, keys: Collection[PartitionKey]) -> None:
        """Prepare for the reading of these partitions' commits: nothing is needed here."""

    async def read(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Commit]:
        """Return what the group has committed, without those that have no commit. Raises KafkaError."""
        return await fetch_commits(self._admin, self._group, sorted(partitions))

    def given_id(self, key: PartitionKey) -> str | None:
        """Return the id of the topic whose partition the group has given, or None where it goes by names."""
        return None

    async def write(
        self,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> Mapping[PartitionKey, str]:
        """Commit all in one request. No messages go with it: that is TransactionalOffsets'."""
        assert not outgoing
        try:
            await self._consumer.commit({TopicPartition(*key): offset for key, offset in offsets.items()})
        except PartitionsRefusedError as refused:
            # The commits of all other partitions of the request are safe.
            return {PartitionKey(*tp): type(error).__name__ for tp, error in refused.errors.items()}
        except (OffsetMetadataTooLargeError, InvalidCommitOffsetSizeError) as error:
            raise TextTooLongError(str(error) or type(error).__name__) from error
        # The generation is over: somebody else may have the partitions, so nothing is tried again.
        except CommitFailedError as error:
            raise CommitRefusedError("the group has gone on without this replica") from error
        except KafkaError as error:
            raise CommitRefusedError(str(error) or type(error).__name__) from error
        return {}

    async def close(self) -> None:
        """End for good: nothing is committed any more."""


class MemberOffsets(GroupOffsets):
    """The offset store of a group of the protocol `consumer`: commits carry the member's epoch."""

    def __init__(self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient, session: GroupSession) -> None:
        super().__init__(consumer, admin, session.settings.group)
        self._session = session
        self._commits = MemberCommits(session)

    @property
    def unanswered_at(self) -> float:
        """Return when a commit was last left without an answer, by time.monotonic; -inf before one was."""
        return self._commits.unanswered_at

    @property
    def generation(self) -> int | None:
        """The number of the membership."""
        return self._commits.generation

    async def read(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Commit]:
        """Return the group's commits, as the coordinator tells its members. Raises KafkaError."""
        found = await self._commits.read([PartitionKey(*tp) for tp in partitions])
        return {TopicPartition(*key): commit for key, commit in found.items()}

    def given_id(self, key: PartitionKey) -> str | None:
        """Return the id by the last answer; None for what isn't held."""
        # A topic made anew has another id under its name: the group gives partitions by ids.
        topic_id, _ = self._session.machine.holdings.held.get(key, (b"", 0))
        return shown_id(topic_id)

    async def write(
        self,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> Mapping[PartitionKey, str]:
        """Commit all in one request. Messages with it aren't built: a rule refuses them."""
        assert not outgoing
        return await self._commits.write(offsets)


async def log_commit_expiry(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> None:
    """Log once what a long stop costs where initialOffset is latest.

    Once the commits are gone nobody can tell: the group is as if it had never been.
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
    """Return offsets.retention.minutes; empty where nobody answers, or this user may not ask."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            broker = next(iter(admin._client.cluster.brokers()))  # noqa: SLF001  # describe_cluster asks for all topics
            return (await read_config(admin, "broker", str(broker.nodeId))).get(_RETENTION, "")
    except (KafkaError, TimeoutError, StopIteration):
        return ""


async def ask_until_answered(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the broker answers. Raises what waiting does not mend."""
    said = ""
    while True:
        try:
            async with asyncio.timeout(_START_SECONDS):
                return await ask()
        except (
            GroupAuthorizationFailedError,
            TopicAuthorizationFailedError,
            TransactionalIdAuthorizationFailed,
        ):
            raise
        except (KafkaError, TimeoutError) as error:
            line = f"where to start can't be read yet ({error!r}); nothing of it is delivered before that"
            if line != said:
                logger.warning("%s", line)
                said = line
            await asyncio.sleep(_RETRY_SECONDS)

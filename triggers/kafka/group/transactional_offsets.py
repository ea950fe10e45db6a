"""`exactlyOnce`: messages produced for records are written in one transaction with their commit."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import InvalidTopicError, KafkaError

from headrace.runtime.kafka.names import TOPIC_NAME
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.offset_store import TextTooLongError
from headrace.runtime.tasks import end_tasks
from headrace.runtime.wire.produce import DeliveryReport, Outgoing
from headrace.triggers.kafka.client.internals import is_member
from headrace.triggers.kafka.client.topics import unwritable_topics
from headrace.triggers.kafka.group.offsets import GroupOffsets, ask_until_answered
from headrace.triggers.kafka.produce.cluster import OutputCluster
from headrace.triggers.kafka.produce.partition_producer import (
    UNWRITABLE,
    AbortedError,
    PartitionProducer,
    RefusedBatchError,
    TransactionError,
    UnknownEndError,
    end_older,
    is_too_long,
    start_partition_producer,
)
from headrace.triggers.kafka.settings.model import KafkaSettings

_RETRY_SECONDS = 0.2
_ANSWER_SECONDS = 3.0
_WAITED = "its last transaction has only just ended"
_PendingCommit: TypeAlias = tuple[int, str, Sequence[Outgoing]]
"""An offset, its text, and the messages that go with it."""


class TransactionalOffsets(GroupOffsets):
    """The offset store with `exactlyOnce`: a transactional producer for each partition.

    docs/design/produce.md says why it is safe.
    """

    has_messages = True

    def __init__(
        self,
        clients: tuple[AIOKafkaConsumer, AIOKafkaAdminClient],
        settings: KafkaSettings,
        cluster: OutputCluster,
        client_id: str,
    ) -> None:
        consumer, admin = clients
        super().__init__(consumer, admin, settings.consumer_group)
        self._settings = settings
        self._client_id = f"{client_id}-transactions"
        self._producers: dict[PartitionKey, PartitionProducer] = {}
        self._running: dict[PartitionKey, asyncio.Task[TransactionError | None]] = {}
        # By ids of topics: what may have been committed, and of which one the group has a commit of ours.
        self._in_doubt: dict[PartitionKey, tuple[_PendingCommit, str]] = {}
        self._committed: dict[PartitionKey, str] = {}
        self._cluster = cluster

    async def begin(self, keys: Collection[PartitionKey]) -> None:
        """Make their producers before their offsets are read: what others have begun has ended then."""
        # A producer is fenced by whoever makes one for its partition later. One of another generation proves
        # nothing.
        generation = self.generation
        await self._end(
            [key for key, it in self._producers.items() if it.generation != generation or key in keys]
        )
        await ask_until_answered(lambda: self._start(keys))

    async def write(
        self,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> Mapping[PartitionKey, str]:
        """Commit those without messages in one request, each of the others in a transaction."""
        # What may not go now is left out, and stays stale: the committer sends it again.
        refused = await self._settle(offsets)
        refused |= self._waiting(outgoing)
        refused |= await self._without_topic({key: it for key, it in outgoing.items() if key not in refused})
        begun, topics = [key for key in outgoing if key not in refused], self._topics(offsets)
        for key in begun:
            commit = (*offsets[key], outgoing[key])
            # A task of its own: it runs on where the commit that waits for it is cancelled.
            self._running[key] = asyncio.create_task(
                self._transact(key, commit), name=f"transaction of {key}"
            )
        # Meanwhile those without messages go by an ordinary commit.
        if plain := {key: it for key, it in offsets.items() if key not in outgoing and key not in refused}:
            refused |= await super().write(plain, {})
        refused |= await self._ended(begun)
        self._committed |= {key: topic for key, topic in topics.items() if key not in refused}
        return refused

    async def close(self) -> None:
        """Close all producers."""
        await self._end(list(self._producers))

    # ---- inside

    def _topics(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, str]:
        """Return the ids of the topics that these are of now."""
        return {key: self.begun.get(key, "") for key in keys}

    async def _start(self, keys: Collection[PartitionKey]) -> None:
        """Make producers for those of `keys` that have none."""
        missing = [key for key in keys if key not in self._producers]
        results = await asyncio.gather(*map(self._make_first, missing), return_exceptions=True)
        for failure in filter(None, results):
            raise failure
        # A frozen replica that wakes up could make a producer after the new owner has: only a heartbeat that
        # the broker answers as a member's proves that nobody else had the partition by then. Sent after all
        # were made: nobody else can have been given these before.
        while not await is_member(self._consumer):  # noqa: ASYNC110  # else the group will say what is ours
            await asyncio.sleep(_RETRY_SECONDS)

    async def _make_first(self, key: PartitionKey) -> None:
        # A replica of the release before may have had the partition until now, in a rolling upgrade.
        await end_older(self._cluster, self._client_id, self._settings.consumer_group, key)
        await self._make(key)

    async def _make(self, key: PartitionKey) -> None:
        group, generation = self._settings.consumer_group, self.generation or -1
        self._producers[key] = await start_partition_producer(
            self._cluster, self._client_id, group, key, generation
        )

    async def _end(self, keys: Iterable[PartitionKey]) -> None:
        """Drop their producers, and what those have begun."""
        await end_tasks([task for key in keys if (task := self._running.pop(key, None)) is not None])
        for key in keys:
            self._in_doubt.pop(key, None)
        await asyncio.gather(*(self._producers.pop(key).close() for key in keys))

    async def _settle(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, str]:
        """Return why these are not to be committed now.

        A commit that waits was made before the partition's last transaction had ended.
        """
        refused = {key: _WAITED for key in keys if key in self._running}
        await self._ended(list(refused))
        for key in [key for key in keys if key in self._in_doubt]:
            refused[key] = await self._ask(key) or _WAITED
        over = [key for key in keys if (it := self._producers.get(key)) is None or it.is_over]
        return refused | {key: why for key in over if (why := await self._renew(key))}

    def _waiting(self, outgoing: Mapping[PartitionKey, Sequence[Outgoing]]) -> dict[PartitionKey, str]:
        """Return partitions with messages for topics in an outage, whose next try isn't due yet."""
        outages, refused = self._cluster.outages, dict[PartitionKey, str]()
        if not outages:
            return refused
        for key, messages in outgoing.items():
            if found := next((it for it in messages if not outages.is_due(it[0].topic)), None):
                refused[key] = outages.why(found[0].topic)
                self._cluster.report_waiting([found])
        return refused

    async def _without_topic(
        self, outgoing: Mapping[PartitionKey, Sequence[Outgoing]]
    ) -> dict[PartitionKey, str]:
        """Return partitions with messages for topics that aren't there: they wait, as sending would.

        A broker that doesn't answer says nothing of its topics.
        """
        if not (asked := {key: new for key, it in outgoing.items() if (new := self._new_topics(key, it))}):
            return {}
        if refused := self._with_bad_names(outgoing):
            return refused
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                away = await unwritable_topics(self._admin, set().union(*asked.values()))
        except (KafkaError, TimeoutError) as unanswered:
            return dict.fromkeys(asked, f"which topics there are isn't known ({unanswered!r})")
        for topic, error in away.items():
            self._cluster.on_topic_away(topic, error)
        return self._waiting(outgoing)

    def _with_bad_names(self, outgoing: Mapping[PartitionKey, Sequence[Outgoing]]) -> dict[PartitionKey, str]:
        """Return partitions with messages for names that no topic can have: their records have failed."""
        refused = {}
        for key, messages in outgoing.items():
            if failed := [it for it in messages if not TOPIC_NAME.fullmatch(it[0].topic)]:
                refused[key] = UNWRITABLE
                self._cluster.fail(failed, InvalidTopicError())
        return refused

    def _new_topics(self, key: PartitionKey, messages: Iterable[Outgoing]) -> set[str]:
        """Return topics of the messages that the partition's producer doesn't know."""
        return {message.topic for message, _ in messages if not self._producers[key].knows(message.topic)}

    async def _ask(self, key: PartitionKey) -> str:
        """Find out by the group's commit whether the transaction in doubt stands.

        Return why nothing is known yet; empty once it is known.
        """
        if why := await self._renew(key):
            return why
        (offset, text, outgoing), topic = self._in_doubt[key]
        tp = TopicPartition(*key)
        try:
            commits = await self.read([tp])
        except KafkaError as error:
            return str(error) or type(error).__name__
        found = commits.get(tp)
        # A group that had a commit of the topic and has none has lost it with the topic: nothing goes to the
        # next one.
        if found is None and topic == self.begun.get(key, "") == self._committed.get(key):
            return "the group has no commit of it any more: its topic was deleted"
        del self._in_doubt[key]
        if found is not None and (found.offset, found.metadata) == (offset, text):
            for _, done in outgoing:
                done(DeliveryReport())
        return ""

    async def _renew(self, key: PartitionKey) -> str:
        """Make another producer, proven to be its owner's. Return why there is none, or empty."""
        if (old := self._producers.pop(key, None)) is not None:
            await old.close()
        try:
            await self._make(key)
            if await is_member(self._consumer):
                return ""
        except KafkaError as error:
            return str(error) or type(error).__name__
        await self._producers.pop(key).close()
        return "the group doesn't answer as to a member"

    async def _transact(self, key: PartitionKey, commit: _PendingCommit) -> TransactionError | None:
        """Write one transaction. Return why it isn't committed, or None.

        Where the broker refuses a batch of several messages, it goes in parts.
        """
        alone: Collection[str] = ()
        topic = self.begun.get(key, "")
        while True:
            try:
                await self._producers[key].write(*commit, alone)
            except RefusedBatchError as refused:
                # The producer counts the refused batch's sequence number: another one sends the parts.
                alone = {*alone, *refused.alone}
                if why := await self._renew(key):
                    return AbortedError(why)
            except TransactionError as error:
                # Whether it stands is asked before the partition's next commit.
                if isinstance(error, UnknownEndError):
                    self._in_doubt[key] = commit, topic
                return error
            else:
                return None

    async def _ended(self, keys: Collection[PartitionKey]) -> dict[PartitionKey, str]:
        """Wait for these transactions, without cancelling any. Raises TextTooLongError."""
        if not keys:
            return {}
        await asyncio.wait([self._running[key] for key in keys])
        errors = {key: error for key in keys if (error := self._running.pop(key).result())}
        for error in errors.values():
            if is_too_long(error.__cause__):
                raise TextTooLongError(str(error)) from error
        return {key: str(error) for key, error in errors.items()}

"""exactlyOnce: what was produced for records is written in one transaction with their commit."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import InvalidTopicError, KafkaError

from headrace.runtime.config.shared_attributes import TOPIC_NAME
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.pending_produces import DeliveryReport, Outgoing
from headrace.runtime.streams.offset_store import TextTooLongError
from headrace.runtime.tasks import end_tasks
from headrace.triggers.kafka.client.internals import is_member
from headrace.triggers.kafka.client.topics import unwritable_topics
from headrace.triggers.kafka.group.offsets import GroupOffsets
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
from headrace.triggers.kafka.start_offsets import answer

_RETRY_SECONDS = 0.2
_ANSWER_SECONDS = 3.0
_WAITED = "its last transaction has only just ended"
_Said: TypeAlias = tuple[int, str, Sequence[Outgoing]]
"""An offset, its text, and the messages that go with it."""


class TransactionalOffsets(GroupOffsets):
    """Keeps OffsetStore, with a producer for each partition. docs/design/produce.md says why it is safe."""

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
        self._unknown: dict[PartitionKey, tuple[_Said, str]] = {}
        self._committed: dict[PartitionKey, str] = {}
        self._cluster = cluster

    async def begin(self, keys: Collection[PartitionKey]) -> None:
        """Make their producers, before their offsets are read: what others have begun has ended then."""
        generation = self.generation
        await self._end(
            [key for key, it in self._producers.items() if it.generation != generation or key in keys]
        )
        await answer(lambda: self._start(keys))

    async def write(
        self,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> Mapping[PartitionKey, str]:
        """One request for those without messages, a transaction for each of the others."""
        refused = await self._settle(offsets)
        refused |= self._waiting(outgoing)
        refused |= await self._without_topic({key: it for key, it in outgoing.items() if key not in refused})
        begun, topics = [key for key in outgoing if key not in refused], self._topics(offsets)
        for key in begun:
            said = (*offsets[key], outgoing[key])
            self._running[key] = asyncio.create_task(self._transact(key, said), name=f"transaction of {key}")
        if plain := {key: it for key, it in offsets.items() if key not in outgoing and key not in refused}:
            refused |= await super().write(plain, {})
        refused |= await self._ended(begun)
        self._committed |= {key: topic for key, topic in topics.items() if key not in refused}
        return refused

    async def close(self) -> None:
        """No producer is left."""
        await self._end(list(self._producers))

    # ---- inside

    def _topics(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, str]:
        """The ids of the topics that these are of now."""
        return {key: self.begun.get(key, "") for key in keys}

    async def _start(self, keys: Collection[PartitionKey]) -> None:
        """Those of `keys` that have none."""
        missing = [key for key in keys if key not in self._producers]
        results = await asyncio.gather(*map(self._make_first, missing), return_exceptions=True)
        for failure in filter(None, results):
            raise failure
        # Sent after all were made: nobody else can have been given these before.
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
        """What they have begun is nobody's business here any more."""
        await end_tasks([task for key in keys if (task := self._running.pop(key, None)) is not None])
        for key in keys:
            self._unknown.pop(key, None)
        await asyncio.gather(*(self._producers.pop(key).close() for key in keys))

    async def _settle(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, str]:
        """Why these are not to be committed now: what is to be, was made before their last one had ended."""
        refused = {key: _WAITED for key in keys if key in self._running}
        await self._ended(list(refused))
        for key in [key for key in keys if key in self._unknown]:
            refused[key] = await self._ask(key) or _WAITED
        over = [key for key in keys if (it := self._producers.get(key)) is None or it.is_over]
        return refused | {key: why for key in over if (why := await self._renew(key))}

    def _waiting(self, outgoing: Mapping[PartitionKey, Sequence[Outgoing]]) -> dict[PartitionKey, str]:
        """Those with messages for topics that can't be written to, and weren't asked for long enough."""
        outages, refused = self._cluster.outages, dict[PartitionKey, str]()
        if not outages:
            return refused
        for key, messages in outgoing.items():
            if found := next((it for it in messages if not outages.is_due(it[0].topic)), None):
                refused[key] = outages.why(found[0].topic)
                self._cluster.wait([found])
        return refused

    async def _without_topic(
        self, outgoing: Mapping[PartitionKey, Sequence[Outgoing]]
    ) -> dict[PartitionKey, str]:
        """Those with messages for topics that aren't there: they wait, as sending would.

        A broker that doesn't answer says nothing of its topics.
        """
        if not (asked := {key: new for key, it in outgoing.items() if (new := self._new_topics(key, it))}):
            return {}
        if refused := self._misnamed(outgoing):
            return refused
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                away = await unwritable_topics(self._admin, set().union(*asked.values()))
        except (KafkaError, TimeoutError) as unheard:
            return dict.fromkeys(asked, f"which topics there are isn't known ({unheard!r})")
        for topic, error in away.items():
            self._cluster.on_away(topic, error)
        return self._waiting(outgoing)

    def _misnamed(self, outgoing: Mapping[PartitionKey, Sequence[Outgoing]]) -> dict[PartitionKey, str]:
        """Those with messages for what no topic can be named: their records have failed."""
        refused = {}
        for key, messages in outgoing.items():
            if failed := [it for it in messages if not TOPIC_NAME.fullmatch(it[0].topic)]:
                refused[key] = UNWRITABLE
                self._cluster.fail(failed, InvalidTopicError())
        return refused

    def _new_topics(self, key: PartitionKey, messages: Iterable[Outgoing]) -> set[str]:
        """Those that its producer doesn't know."""
        return {message.topic for message, _ in messages if not self._producers[key].knows(message.topic)}

    async def _ask(self, key: PartitionKey) -> str:
        """The group's commit says whether that transaction stands. Why nothing is known yet, or nothing."""
        if why := await self._renew(key):
            return why
        (offset, text, outgoing), topic = self._unknown[key]
        tp = TopicPartition(*key)
        try:
            commits = await self.read([tp])
        except KafkaError as error:
            return str(error) or type(error).__name__
        found = commits.get(tp)
        if found is None and topic == self.begun.get(key, "") == self._committed.get(key):
            return "the group has no commit of it any more: its topic was deleted"
        del self._unknown[key]
        if found is not None and (found.offset, found.metadata) == (offset, text):
            for _, done in outgoing:
                done(DeliveryReport())
        return ""

    async def _renew(self, key: PartitionKey) -> str:
        """Another producer, proven to be its owner's; or why there is none."""
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

    async def _transact(self, key: PartitionKey, said: _Said) -> TransactionError | None:
        """Why it isn't committed. Where the broker refuses a batch of several messages, it goes in parts."""
        alone: Collection[str] = ()
        topic = self.begun.get(key, "")
        while True:
            try:
                await self._producers[key].write(*said, alone)
            except RefusedBatchError as refused:
                alone = {*alone, *refused.alone}
                if why := await self._renew(key):
                    return AbortedError(why)
            except TransactionError as error:
                if isinstance(error, UnknownEndError):
                    self._unknown[key] = said, topic
                return error
            else:
                return None

    async def _ended(self, keys: Collection[PartitionKey]) -> dict[PartitionKey, str]:
        """Wait for them, but not cancelling any. Raises TextTooLongError."""
        if not keys:
            return {}
        await asyncio.wait([self._running[key] for key in keys])
        errors = {key: error for key in keys if (error := self._running.pop(key).result())}
        for error in errors.values():
            if is_too_long(error.__cause__):
                raise TextTooLongError(str(error)) from error
        return {key: str(error) for key, error in errors.items()}

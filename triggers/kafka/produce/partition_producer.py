"""The transactional producer of one source partition: messages produced for it go with its commits."""

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from aiokafka import TopicPartition
from aiokafka.errors import (
    IllegalOperation,
    InvalidCommitOffsetSizeError,
    KafkaError,
    OffsetMetadataTooLargeError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartitionError,
)
from aiokafka.structs import OffsetAndMetadata

from headrace.runtime.kafka.producer import discard, start_producer
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.wire.produce import Outgoing
from headrace.triggers.kafka.produce.cluster import OutputCluster
from headrace.triggers.kafka.produce.faults import TOO_LARGE, Fault, MissingPartitionError, fault_of
from headrace.triggers.kafka.produce.packing import MessageBatch, Waiting, pack, targets_of


def transactional_id(group: str, key: PartitionKey) -> str:
    """Return the id of one partition of one group, whatever their names: no topic has a slash.

    It begins with `GROUP-`. Whoever takes an id last fences those who had it before.
    """
    return f"{group}-headrace/{key.topic}/{key.partition}"


def older_transactional_id(group: str, key: PartitionKey) -> str:
    """Return the id that the release before used.

    Names could run into each other: `a` on `b-c`, and `a-b` on `c`.
    """
    return f"{group}-{key.topic}-{key.partition}"


_Sent: TypeAlias = tuple[MessageBatch, "asyncio.Future[Any]"]
"""A batch, and what becomes of it."""
_CHECK_SECONDS = 3.0
UNWRITABLE = "a message that belongs to it can't be written"
_TOO_LONG = (OffsetMetadataTooLargeError, InvalidCommitOffsetSizeError)


class TransactionError(Exception):
    """A transaction didn't end well. The text says why."""


class AbortedError(TransactionError):
    """A transaction was aborted."""


class RefusedBatchError(AbortedError):
    """A message is refused with others of its batch, and none of them was told so.

    `alone`: topics whose messages go singly next time.
    """

    def __init__(self, alone: Collection[str]) -> None:
        super().__init__("the broker refuses a batch of messages")
        self.alone = alone


class UnknownEndError(TransactionError):
    """A transaction's commit was asked for, and has no answer: it stands or it doesn't."""


class PartitionProducer:
    """A producer with a transactional id of its own.

    Whoever makes one for the same partition of the same group later fences this one. Once `is_over` it takes
    no more transactions.
    """

    def __init__(
        self, client: Any, cluster: OutputCluster, group: str, key: PartitionKey, generation: int
    ) -> None:
        self.generation = generation
        """The group's generation in which it was made."""
        self.is_over = False
        self._client = client
        self._cluster = cluster
        self._group = group
        self._key = key

    async def write(
        self, offset: int, text: str, outgoing: Sequence[Outgoing], alone: Collection[str] = ()
    ) -> None:
        """Write all messages and the commit in one transaction, and tell each message where it is.

        Those for the topics in `alone` are in a batch each. Raises UnknownEndError, or AbortedError. Messages
        that can't be written, for which it was aborted, are told so.
        """
        try:
            await self._client.begin_transaction()
            self._client._txn_manager.wait_for_transaction_end().add_done_callback(_mark_retrieved)  # noqa: SLF001
            sent = [
                await self._send(topic, waiting, are_alone=topic in alone)
                for topic, waiting in _by_topic(outgoing).items()
            ]
            batches = [batch for of_topic in sent for batch in of_topic]
            # All of them: a transaction whose messages aren't all written must not be committed.
            results = await self._results(batches)
        except (KafkaError, AssertionError) as error:  # the latter: in a state of no return
            raise self._ended_with(AbortedError, error) from error
        ended = [(batch, result) for (batch, _), result in zip(batches, results, strict=True)]
        if failed := [it for it in ended if isinstance(it[1], Exception)]:
            await self._abort(failed)
        await self._commit(offset, text)
        # Only now: what a message is told must not be undone by an abort.
        for batch, result in ended:
            batch.confirm(result.offset)
            self._cluster.outages.end(batch.messages[0][0].topic)

    def knows(self, topic: str) -> bool:
        """Whether its client has heard of the topic: the broker need not be asked."""
        return self._client.client.cluster.partitions_for_topic(topic) is not None

    async def close(self) -> None:
        """Close it. An open transaction is left to whoever comes next."""
        self.is_over = True
        await discard(self._client)

    # ---- inside

    async def _send(self, topic: str, waiting: Waiting, *, are_alone: bool) -> Sequence[_Sent]:
        """Return batches, each with what becomes of it. What the client refuses has failed, too."""
        try:
            targets = await targets_of(self._client, topic)
        except (UnknownTopicOrPartitionError, TopicAuthorizationFailedError) as error:
            return [(MessageBatch.of(waiting), _failed(error))]
        alone = len(waiting) if are_alone else 0
        create, max_bytes = self._client.create_batch, self._cluster.limits.get(topic)
        packed = pack(waiting, create, targets, max_bytes, alone)
        return [(batch, await self._send_batch(topic, batch)) for batch in packed]

    async def _results(self, batches: Sequence[_Sent]) -> list[Any]:
        """Return the result or the error of each batch. Raises AbortedError."""
        if not batches:
            return []
        results = asyncio.gather(*(written for _, written in batches), return_exceptions=True)
        while not (await asyncio.wait([results], timeout=_CHECK_SECONDS))[0]:
            # The client would ask for ever to write to a topic that was deleted, in silence.
            await self._client.client.force_metadata_update()
            gone = [batch for batch, _ in batches if not self.knows(batch.messages[0][0].topic)]
            if gone:
                self.is_over = (
                    True  # not aborted, as that would wait for the same: whoever comes next ends it
                )
                raise AbortedError(self._fail_or_wait(gone[0], UnknownTopicOrPartitionError()))
        return results.result()

    async def _send_batch(self, topic: str, batch: MessageBatch) -> "asyncio.Future[Any]":
        if batch.builder is None:
            return _failed(MissingPartitionError())
        try:
            written: asyncio.Future[Any] = await self._client.send_batch(
                batch.builder, topic, partition=batch.partition
            )
        except AssertionError:  # the transaction takes no more, since something of it has failed
            return _failed(IllegalOperation(UNWRITABLE))
        except Exception as error:  # whatever the client makes of it
            return _failed(error)
        written.add_done_callback(_mark_retrieved)
        return written

    async def _abort(self, failed: Sequence[tuple[MessageBatch, Exception]]) -> None:
        """Abort, because of some that can't be written. The others go with the next transaction."""
        # It has counted a failed batch's sequence number: the broker would refuse what follows.
        self.is_over = True
        refused = [it for it in failed if fault_of(it[1]) is not Fault.PRODUCER]
        if not refused:
            error = failed[0][1]
            raise AbortedError(str(error) or type(error).__name__)
        # What else has failed, did so for these: it was behind them, or the transaction took no more.
        with suppress(KafkaError, AssertionError):  # whoever comes next ends it
            await self._client.abort_transaction()
        if divisible := [it for it in refused if fault_of(it[1]) is Fault.BATCH and len(it[0].messages) > 1]:
            raise RefusedBatchError(self._topics_to_split(divisible))
        raise AbortedError(", ".join(sorted({self._fail_or_wait(*it) for it in refused})))

    def _fail_or_wait(self, batch: MessageBatch, error: Exception) -> str:
        """Have the records of these messages fail, or wait. Return why there is no commit."""
        if fault_of(error) is not Fault.TOPIC:
            self._cluster.fail(batch.messages, error)
            return UNWRITABLE
        topic = batch.messages[0][0].topic
        self._cluster.on_topic_away(topic, error)
        self._cluster.report_waiting(batch.messages)
        return self._cluster.outages.why(topic)

    def _topics_to_split(self, refused: Sequence[tuple[MessageBatch, Exception]]) -> set[str]:
        """Return topics whose messages have to go singly; for the others smaller batches will do."""
        alone = set()
        for batch, error in refused:
            topic = batch.messages[0][0].topic
            if isinstance(error, TOO_LARGE):
                self._cluster.limits.on_refused(topic, batch.builder.size())
            else:
                alone.add(topic)
        return alone

    async def _commit(self, offset: int, text: str) -> None:
        offsets = {TopicPartition(*self._key): OffsetAndMetadata(offset, text)}
        try:
            await self._client.send_offsets_to_transaction(offsets, self._group)
        except (KafkaError, AssertionError) as error:
            raise self._ended_with(AbortedError, error) from error
        try:
            await self._client.commit_transaction()
        except (KafkaError, AssertionError) as error:
            raise self._ended_with(UnknownEndError, error) from error

    def _ended_with(self, kind: type[TransactionError], error: BaseException) -> TransactionError:
        self.is_over = True
        return kind(str(error) or type(error).__name__)


async def start_partition_producer(
    cluster: OutputCluster, client_id: str, group: str, key: PartitionKey, generation: int
) -> PartitionProducer:
    """Start one. Nobody who had one before can write any more; their last transaction has ended.

    Raises KafkaError.
    """
    # This ends the last transaction of whoever had the id before, and waits for that.
    client = await start_producer(cluster.access, client_id, transactional_id(group, key))
    return PartitionProducer(client, cluster, group, key, generation)


async def end_older(cluster: OutputCluster, client_id: str, group: str, key: PartitionKey) -> None:
    """Fence producers of the release before, which had another id, as starting one does.

    Raises KafkaError.
    """
    with suppress(TransactionalIdAuthorizationFailed):  # then they can't write by it, either
        await discard(await start_producer(cluster.access, client_id, older_transactional_id(group, key)))


def is_too_long(error: BaseException | None) -> bool:
    """Whether the broker takes less text beside an offset: aiokafka says so as a cause."""
    while error is not None and not isinstance(error, _TOO_LONG):
        error = error.__cause__
    return error is not None


def _mark_retrieved(end: "asyncio.Future[Any]") -> None:
    """Keep asyncio from logging an exception that nobody retrieves, as another failure counts."""
    if not end.cancelled():
        end.exception()


def _failed(error: Exception) -> "asyncio.Future[Any]":
    failed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    failed.add_done_callback(_mark_retrieved)
    failed.set_exception(error)
    return failed


def _by_topic(outgoing: Sequence[Outgoing]) -> dict[str, Waiting]:
    by_topic: dict[str, Waiting] = {}
    for message, done in outgoing:
        by_topic.setdefault(message.topic, deque()).append((message, done))
    return by_topic

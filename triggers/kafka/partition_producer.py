"""The transactional producer of one source partition: what is produced for it goes with its commits."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import (
    InvalidCommitOffsetSizeError,
    InvalidTxnState,
    KafkaError,
    OffsetMetadataTooLargeError,
)
from aiokafka.structs import OffsetAndMetadata

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.dead_letter_producer import discard, start_producer
from headrace.runtime.partitions.books.held import Outgoing, Written
from headrace.runtime.partitions.key import PartitionKey
from headrace.triggers.kafka.outputs import OUT_OF_STEP, explained

_OF_THE_PRODUCER = (*OUT_OF_STEP, InvalidTxnState)
_TOPIC_SECONDS = 2.0
UNWRITABLE = "a message that belongs to it can't be written"
_TOO_LONG = (OffsetMetadataTooLargeError, InvalidCommitOffsetSizeError)


class TransactionError(Exception):
    """A transaction that didn't end well. The text says why."""


class AbortedError(TransactionError):
    """Nothing of it stands."""


class UnknownEndError(TransactionError):
    """Its commit was asked for: it stands or it doesn't."""


class PartitionProducer:
    """Whoever makes one for the same partition of the same group later fences this one.

    Once `is_over` it takes no more transactions.
    """

    def __init__(
        self, client: Any, access: BrokerAccess, group: str, key: PartitionKey, generation: int
    ) -> None:
        self.generation = generation
        """Of the group, in which it was made."""
        self.is_over = False
        self._client = client
        self._access = access
        self._group = group
        self._key = key

    async def write(self, offset: int, text: str, outgoing: Sequence[Outgoing]) -> None:
        """All messages and the commit, in one transaction; tells each message where it is.

        Raises UnknownEndError, or AbortedError. Messages that can't be written, for which it was aborted, are
        told so.
        """
        try:
            await self._client.begin_transaction()
            self._client._txn_manager.wait_for_transaction_end().add_done_callback(_hear)  # noqa: SLF001
            sent = [await self._send(it) for it in outgoing]
            results: list[Any] = await asyncio.gather(*sent, return_exceptions=True)
        except (KafkaError, AssertionError) as error:  # the latter: in a state of no return
            raise self._over(AbortedError, error) from error
        if any(isinstance(it, BaseException) for it in results):
            await self._abort(outgoing, results)
        await self._commit(offset, text)
        for (_, done), where in zip(outgoing, results, strict=True):
            done(Written(where.partition, where.offset))

    async def has_topic(self, topic: str) -> bool:
        """False where the broker doesn't have it, within seconds: sending would wait for longer."""
        try:
            async with asyncio.timeout(_TOPIC_SECONDS):
                await self._client.partitions_for(topic)
        except TimeoutError:
            return False
        except KafkaError:  # sending says it better
            return True
        return True

    async def close(self) -> None:
        """An open transaction is left to whoever comes next."""
        self.is_over = True
        await discard(self._client)

    # ---- inside

    async def _send(self, outgoing: Outgoing) -> "asyncio.Future[Any]":
        """A message that the client refuses has failed as one that the broker does."""
        message, _ = outgoing
        try:
            written: asyncio.Future[Any] = await self._client.send(
                message.topic,
                message.value,
                message.key,
                message.partition,
                message.timestamp,
                list(message.headers),
            )
        except _OF_THE_PRODUCER:
            raise
        except Exception as error:  # whatever the client makes of it
            written = asyncio.get_running_loop().create_future()
            written.set_exception(error)
        return written

    async def _abort(self, outgoing: Sequence[Outgoing], results: Sequence[Any]) -> None:
        """Some can't be written. The others go with the next one."""
        # It has counted a failed batch's sequence number: the broker would refuse what follows.
        self.is_over = True
        failed = [
            (it, error) for it, error in zip(outgoing, results, strict=True) if isinstance(error, Exception)
        ]
        if any(_is_of_the_producer(error) for _, error in failed):
            raise AbortedError(str(failed[0][1]) or type(failed[0][1]).__name__)
        with suppress(KafkaError, AssertionError):  # whoever comes next ends it
            await self._client.abort_transaction()
        for (message, done), error in failed:
            done(Written(failure=explained(error, message, self._access)))
        raise AbortedError(UNWRITABLE)

    async def _commit(self, offset: int, text: str) -> None:
        offsets = {TopicPartition(*self._key): OffsetAndMetadata(offset, text)}
        try:
            await self._client.send_offsets_to_transaction(offsets, self._group)
        except (KafkaError, AssertionError) as error:
            raise self._over(AbortedError, error) from error
        try:
            await self._client.commit_transaction()
        except (KafkaError, AssertionError) as error:
            raise self._over(UnknownEndError, error) from error

    def _over(self, kind: type[TransactionError], error: BaseException) -> TransactionError:
        self.is_over = True
        return kind(str(error) or type(error).__name__)


async def start_partition_producer(
    access: BrokerAccess, client_id: str, group: str, key: PartitionKey, generation: int
) -> PartitionProducer:
    """Nobody who had one before can write any more; their last transaction has ended. Raises KafkaError."""
    client = await start_producer(access, client_id, f"{group}-{key.topic}-{key.partition}")
    return PartitionProducer(client, access, group, key, generation)


def is_too_long(error: BaseException | None) -> bool:
    """The broker takes less text beside an offset: aiokafka says so as a cause."""
    while error is not None and not isinstance(error, _TOO_LONG):
        error = error.__cause__
    return error is not None


def _hear(end: "asyncio.Future[None]") -> None:
    """Where somebody else has heard of its failure, asyncio would say that nobody has."""
    if not end.cancelled():
        end.exception()


def _is_of_the_producer(error: BaseException) -> bool:
    """Not of the message."""
    return type(error) is KafkaError or isinstance(error, _OF_THE_PRODUCER)

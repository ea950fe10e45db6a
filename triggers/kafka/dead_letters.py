"""Failed records on their way to a dead-letter topic."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerClosed,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from headrace.runtime.errors import BrokerError
from headrace.runtime.kafka.dead_letter_headers import Provenance, with_writable_names
from headrace.runtime.kafka.producer import RecordCopy, discard, start_producer, write_copy
from headrace.runtime.kafka.refusals import no_answer
from headrace.runtime.streams.isolated_decoder import IsolatedDecoder
from headrace.triggers.kafka.client.errors import explain
from headrace.triggers.kafka.produce.faults import OUT_OF_STEP
from headrace.triggers.kafka.settings.model import KafkaSettings

_WRITE_SECONDS = 30.0
_TOPIC_SECONDS = 5.0
_CLOSE_SECONDS = 2.0


@dataclass(slots=True, eq=False)
class _SharedProducer:
    """A producer with those who write through it now. Once retired it is closed when they are done."""

    producer: AIOKafkaProducer
    writers: int = 0
    is_retired: bool = False
    partition_locks: dict[int, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """A lock a partition, for one write at a time: aiokafka's queue of batches wakes all at every step."""

    def check(self) -> None:
        """Raise ProducerClosed where another write has failed."""
        if self.is_retired:
            raise ProducerClosed


class KafkaDeadLetters:
    """Writes to one dead-letter topic. Connects at the first write; writes may overlap.

    A write that fails leaves nothing behind: its producer takes no more writes, and the next one starts anew.
    """

    def __init__(
        self, settings: KafkaSettings, topic: str, function: str, client_id: str, opener: IsolatedDecoder
    ) -> None:
        """`opener` ends with it."""
        self._settings = settings
        self._topic = topic
        self._function = function
        self._client_id = f"{client_id}-dead-letters"
        self._opener = opener
        self._starting: asyncio.Task[_SharedProducer] | None = None
        self._current: _SharedProducer | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._deadlines: set[asyncio.Timeout] = set()
        self._is_idle = asyncio.Event()
        self._is_closed = False

    async def write(
        self, record: Any, source_topic: str, source_partition: int, reason: str, attempts: int
    ) -> None:
        """Write a record byte for byte, with its provenance, and return once the broker has confirmed it.

        `record` has aiokafka's offset, timestamp, timestamp_type, key, value and headers. Raises BrokerError
        within half a minute; the record may have been written then all the same. Raises UndecodableError
        where it can't be decoded.
        """
        # A chunk's record is decoded in a process of its own: bytes that killed workers must not kill
        # this one.
        record = await self._opener.decode(record)
        timestamp = None if record.timestamp is None or record.timestamp < 0 else record.timestamp
        provenance = Provenance(
            source_topic, source_partition, record.offset, timestamp, reason, attempts, self._function
        )
        headers = [*with_writable_names(record.headers), *provenance.headers()]
        # The bytes of the record are as they were; only headers are added.
        # With the source's time, the topic's retention might delete it before anybody has looked.
        copy = RecordCopy(record.key, record.value, headers, None)
        try:
            async with self._deadline():
                # A producer that another write has put out of step is replaced: this record isn't to blame.
                while not await self._try_to_write(copy, source_partition):
                    pass
        except TimeoutError:
            raise BrokerError(
                f"{self._settings.access} did not confirm a record in dead-letter topic "
                f"{self._topic} " + ("before the stop" if self._is_closed else f"within {_WRITE_SECONDS:g} s")
            ) from None
        except KafkaError as error:
            raise self._explained(error, copy) from None

    async def close(self) -> None:
        """End writes that are under way, which fail. Idempotent, done within seconds."""
        self._is_closed = True
        self._opener.close()
        for deadline in (it for it in self._deadlines if not it.expired()):
            deadline.reschedule(asyncio.get_running_loop().time())
        if self._deadlines:
            await self._is_idle.wait()
        if self._starting is not None:
            starting = self._starting
            await asyncio.wait([starting], timeout=_CLOSE_SECONDS)
            # Awaited: a cancelled start still closes the connections that it has made.
            starting.cancel()
            await asyncio.wait([starting])
        if self._current is not None:
            self._retire(self._current)
        if self._closing:
            await asyncio.wait(self._closing)

    @asynccontextmanager
    async def _deadline(self) -> AsyncIterator[None]:
        async with asyncio.timeout(0 if self._is_closed else _WRITE_SECONDS) as deadline:
            self._deadlines.add(deadline)
            self._is_idle.clear()
            try:
                yield
            finally:
                self._deadlines.discard(deadline)
                if not self._deadlines:
                    self._is_idle.set()

    async def _try_to_write(self, copy: RecordCopy, source_partition: int) -> bool:
        """Write it. Return False where another write has put the producer out of step: try a new one."""
        shared = await self._producer()
        try:
            async with self._writing(shared):
                partitions = await self._partitions(shared.producer)
                # What failed in a source partition stays in order; with as many partitions, in its own.
                partition = partitions[source_partition % len(partitions)]
                async with shared.partition_locks[partition]:
                    shared.check()
                    await write_copy(shared.producer, self._topic, partition, copy)
        except OUT_OF_STEP:
            return False
        return True

    async def _partitions(self, producer: AIOKafkaProducer) -> list[int]:
        try:
            async with asyncio.timeout(_TOPIC_SECONDS):
                return sorted(await producer.partitions_for(self._topic))
        except TimeoutError:
            raise UnknownTopicOrPartitionError from None

    async def _producer(self) -> _SharedProducer:
        """The current one, or a new one, for which all wait together. Raises KafkaError."""
        if self._current is not None:
            return self._current
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name="dead-letter producer")
        # Shielded: aiokafka loses a connection whose making is cancelled.
        return await asyncio.shield(self._starting)

    async def _start(self) -> _SharedProducer:
        try:
            producer = await start_producer(self._settings.access, self._client_id)
            self._current = _SharedProducer(producer)
        finally:
            self._starting = None
        return self._current

    @asynccontextmanager
    async def _writing(self, shared: _SharedProducer) -> AsyncIterator[None]:
        shared.check()
        shared.writers += 1
        try:
            yield
        except (KafkaError, asyncio.CancelledError):
            # aiokafka has counted the failed batch's sequence number: the broker refuses what would follow.
            self._retire(shared)
            raise
        finally:
            shared.writers -= 1
            self._close_if_done(shared)

    def _retire(self, shared: _SharedProducer) -> None:
        shared.is_retired = True
        if self._current is shared:
            self._current = None
            self._close_if_done(shared)

    def _close_if_done(self, shared: _SharedProducer) -> None:
        if shared.is_retired and shared.writers == 0:
            task = asyncio.create_task(discard(shared.producer), name="dead-letter producer")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _explained(self, error: KafkaError, copy: RecordCopy) -> BrokerError:
        """Return the error in one line, with what to change."""
        topic, brokers = self._topic, self._settings.access
        match error:
            case UnknownTopicOrPartitionError():
                line = (
                    f"there is no dead-letter topic {topic} at {brokers}: "
                    f"create it with `headrace kafka topics --create {topic}:8`"
                )
            case MessageSizeTooLargeError() | RecordListTooLargeError():
                size = len(copy.value or b"") + len(copy.key or b"")
                line = (
                    f"dead-letter topic {topic} takes no record of {size} bytes and its headers: "
                    "raise max.message.bytes of that topic"
                )
            # The second: who may write nowhere may not begin to write exactly once either.
            case TopicAuthorizationFailedError() | ClusterAuthorizationFailedError():
                line = f"{brokers} does not let this user write to dead-letter topic {topic}"
            case KafkaConnectionError():
                line = f"{no_answer(brokers)}: nothing can be written to dead-letter topic {topic}"
            case _:
                return explain(error, self._settings)
        return BrokerError(line)

"""What handlers produce, on its way: signed in as the trigger is, idempotent, confirmed by all replicas."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownProducerId,
    UnknownTopicOrPartitionError,
)

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.connect_errors import connect_errors
from headrace.runtime.kafka.dead_letter_producer import discard, start_producer
from headrace.runtime.kafka.refusals import no_answer, refusal
from headrace.runtime.partitions.books.held import Confirm, Written
from headrace.runtime.tasks import start_task
from headrace.runtime.wire.produce import Message
from headrace.triggers.kafka.client.sign_in import SignIns
from headrace.triggers.kafka.produce.packing import NoAnswerError, Packed, Waiting, pack, targets

logger = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 1.0
_MAX_RETRY_SECONDS = 10.0
_SILENT_SECONDS = 10.0
_WHAT_WAITS = "messages wait, and no record that has produced one is committed"
_CLOSE_SECONDS = 5.0
OUT_OF_STEP = (OutOfOrderSequenceNumber, UnknownProducerId, ProducerFenced, ProducerClosed)


class _Producer:
    """aiokafka's, with what it hasn't confirmed. Once retired it takes no more, and ends after that."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.open = 0
        self.is_retired = False


class Outputs:
    """To one cluster. Keeps interface.Output. How much is on its way is for workers to bound."""

    def __init__(self, access: BrokerAccess, client_id: str) -> None:
        self._access = access
        self._client_id = f"{client_id}-outputs"
        self._waiting: dict[str, Waiting] = {}  # by topic, each with a task
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        self._current: _Producer | None = None
        self._problem = ""
        self._sign_ins = SignIns(access, _WHAT_WAITS)
        self._last_news = 0.0  # when something was confirmed, or there was nothing to confirm

    def produce(self, message: Message, done: Confirm) -> None:
        """As Feed says. Those for one topic are sent in order."""
        if (waiting := self._waiting.get(message.topic)) is not None:
            waiting.append((message, done))
            return
        self._waiting[message.topic] = deque([(message, done)])
        self._start(self._send_all(message.topic), f"messages for {message.topic}")

    def problems(self) -> list[str]:
        """As Output says."""
        if problem := self._problem or self._sign_ins.problem:
            return [problem]
        silent_seconds = time.monotonic() - self._last_news
        if self._current is None or not self._current.open or silent_seconds < _SILENT_SECONDS:
            return []
        return [f"{self._access} has confirmed no message for {silent_seconds:.0f} s"]

    async def close(self) -> None:
        """Nobody waits for anything any more. Idempotent, done within seconds."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_SECONDS)
        if self._current is not None:
            current, self._current = self._current, None
            await discard(current.client)

    # ---- inside

    def _start(self, work: Any, name: str) -> None:
        task = start_task(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_all(self, topic: str) -> None:
        waiting = self._waiting[topic]
        while waiting:
            producer = await self._producer()
            if not producer.open:
                self._last_news = time.monotonic()
            producer.open += 1  # so it isn't ended amid these
            try:
                await self._send(producer, topic, waiting)
            finally:
                self._left(producer)
        del self._waiting[topic]

    async def _send(self, producer: _Producer, topic: str, waiting: Waiting) -> None:
        """Returns once all that waits is on its way, or has failed."""
        try:
            partitions, available = await targets(producer.client, topic)
        except NoAnswerError:
            await asyncio.sleep(_FIRST_RETRY_SECONDS)  # no message has failed: all of them wait
        except Exception as error:  # whatever the client makes of it
            failed = list(waiting)
            waiting.clear()
            self._fail(producer, failed, error)
        else:
            for batch in pack(waiting, producer.client.create_batch, partitions, available):
                await self._send_batch(producer, topic, batch)

    async def _send_batch(self, producer: _Producer, topic: str, batch: Packed) -> None:
        """Returns once there is room for the next one of its partition."""
        producer.open += 1
        try:
            written = await producer.client.send_batch(batch.builder, topic, partition=batch.partition)
        except Exception as error:  # whatever the client makes of it
            self._left(producer)
            self._fail(producer, batch.messages, error)
        else:
            written.add_done_callback(partial(self._on_written, producer, batch))

    def _on_written(self, producer: _Producer, batch: Packed, written: asyncio.Future[Any]) -> None:
        self._left(producer)
        if written.cancelled():
            self._fail(producer, batch.messages, ProducerClosed())
        elif (error := written.exception()) is not None:
            self._retire(producer)  # it has counted the failed batch: the broker refuses what follows
            self._fail(producer, batch.messages, error)
        else:
            batch.confirm(written.result().offset)

    def _fail(
        self, producer: _Producer, messages: Iterable[tuple[Message, Confirm]], error: BaseException
    ) -> None:
        if isinstance(error, OUT_OF_STEP):  # by the failure of another one
            self._retire(producer)
            for message, done in messages:
                self.produce(message, done)
        else:
            for message, done in messages:
                done(Written(failure=explained(error, message, self._access)))

    def _left(self, producer: _Producer) -> None:
        self._last_news = time.monotonic()
        producer.open -= 1
        self._end_if_done(producer)

    def _retire(self, producer: _Producer) -> None:
        producer.is_retired = True
        if self._current is producer:
            self._current = None
        self._end_if_done(producer)

    def _end_if_done(self, producer: _Producer) -> None:
        if producer.is_retired and producer.open == 0:
            producer.open = -1  # once
            self._start(discard(producer.client), "a producer's end")

    async def _producer(self) -> _Producer:
        """The current one, or a new one, for which all wait together, until the broker takes it.

        A sign-in that it refuses too: no record is to blame for that, and none is to end as a dead letter.
        """
        async with self._starting:
            wait_seconds = _FIRST_RETRY_SECONDS
            while self._current is None:
                try:
                    with connect_errors() as heard:
                        client = await start_producer(self._access, self._client_id)
                except KafkaError as error:
                    self._not_yet(error, heard.last)
                    await asyncio.sleep(wait_seconds)
                    wait_seconds = min(2 * wait_seconds, _MAX_RETRY_SECONDS)  # brokers may lock out
                else:
                    self._sign_ins.watch(client.client)
                    self._current = _Producer(client)
            if self._problem:
                logger.info("%s takes messages now", self._access)
                self._problem = ""
            return self._current

    def _not_yet(self, error: KafkaError, cause: BaseException | None) -> None:
        refused = refusal(cause, self._access) or refusal(error, self._access)
        if isinstance(error, ClusterAuthorizationFailedError):
            refused = f"{self._access} does not let this user write to any topic"
        problem = refused or f"{no_answer(self._access)} ({cause or error})"
        if problem != self._problem:
            logger.warning("%s; %s; trying again", problem, _WHAT_WAITS)
        self._problem = problem


def explained(error: BaseException, message: Message, access: BrokerAccess) -> str:
    """Why a message can't be written, in one line, with what to change."""
    topic = message.topic
    match error:
        case UnknownTopicOrPartitionError():
            return f"there is no topic {topic} at {access}: `headrace kafka topics --create {topic}:8`"
        case MessageSizeTooLargeError() | RecordListTooLargeError():
            return f"topic {topic} takes no message of {message.size_bytes} bytes: raise max.message.bytes"
        case TopicAuthorizationFailedError():
            return f"{access} does not let this user write to topic {topic}"
        case _:
            return f"topic {topic} at {access}: {error or type(error).__name__}"

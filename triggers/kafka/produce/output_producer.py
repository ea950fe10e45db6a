"""Messages of handlers on their way: signed in as the trigger is, idempotent, confirmed by all replicas."""

import asyncio
import logging
import time
from functools import partial
from typing import Any

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    KafkaError,
    ProducerClosed,
)

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.connecting import ConnectErrors, connect_errors
from headrace.runtime.kafka.names import TOPIC_NAME
from headrace.runtime.kafka.producer import discard, start_producer
from headrace.runtime.kafka.refusals import not_connected, refusal
from headrace.runtime.tasks import start_task
from headrace.runtime.wire.produce import DeliveryCallback, Message
from headrace.triggers.kafka.client.reauthentication import SignInWatch
from headrace.triggers.kafka.produce.cluster import WHAT_WAITS, OutputCluster
from headrace.triggers.kafka.produce.faults import TOO_LARGE, Fault, MissingPartitionError, fault_of
from headrace.triggers.kafka.produce.packing import MessageBatch, NoAnswerError, pack, targets_of
from headrace.triggers.kafka.produce.topic_queue import SILENT_SECONDS, TopicQueue

logger = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 1.0
_MAX_RETRY_SECONDS = 10.0
_SILENT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0


class _Producer:
    """A producer of aiokafka's, with how many of its batches are open. Once retired it ends after those."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.open = 0
        self.is_retired = False


class OutputProducer:
    """The output to one cluster: an Output of dispatch. Workers bound how much is on its way."""

    def __init__(self, access: BrokerAccess, client_id: str) -> None:
        self._access = access
        self._client_id = f"{client_id}-outputs"
        self._queues: dict[str, TopicQueue] = {}  # by topic, with a task each where something waits
        self.cluster = OutputCluster(access)
        self._tasks: set[asyncio.Task[None]] = set()
        self._watcher: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._current: _Producer | None = None
        self._problem = ""
        self._sign_ins = SignInWatch(access, WHAT_WAITS)
        self._last_event = 0.0  # when something was confirmed, or there was nothing to confirm

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        """Send a message, and call `done` with what becomes of it. Those for one topic go in order."""
        if not TOPIC_NAME.fullmatch(message.topic):
            # By call_soon: `done` must not be called before `produce` has returned.
            asyncio.get_running_loop().call_soon(self.cluster.fail, [(message, done)], InvalidTopicError())
            return
        if self._problem or message.topic in self.cluster.outages:
            asyncio.get_running_loop().call_soon(self.cluster.report_waiting, [(message, done)])
        if (queue := self._queues.get(message.topic)) is None:
            queue = self._queues[message.topic] = TopicQueue(message.topic)
            if self._watcher is None or self._watcher.done():
                self._watcher = self._start(self._watch(), "messages that nobody confirms")
        queue.waiting.append((message, done))
        self._send_if_needed(queue)

    def problems(self) -> list[str]:
        """Return why messages wait, one line each."""
        problem = self._problem or self._sign_ins.problem
        return [*([problem] if problem else self._silence()), *self.cluster.outages.problems()]

    def _silence(self) -> list[str]:
        silent_seconds = time.monotonic() - self._last_event
        if self._current is None or not self._current.open or silent_seconds < _SILENT_SECONDS:
            return []
        return [f"{self._access} has confirmed no message for {silent_seconds:.0f} s"]

    async def close(self) -> None:
        """End all sending: nobody waits for anything any more. Idempotent, done within seconds."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_SECONDS)
        if self._current is not None:
            current, self._current = self._current, None
            await discard(current.client)

    # ---- inside

    def _start(self, work: Any, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = start_task(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch(self) -> None:
        """Tell messages that no broker confirms that they wait; else handlers would, until stopped."""
        while self._queues:
            for queue in tuple(self._queues.values()):
                if queue.is_silent:
                    self.cluster.report_waiting(queue.unwritten())
            await asyncio.sleep(SILENT_SECONDS / 2)

    def _send_if_needed(self, queue: TopicQueue) -> None:
        if queue.has_more and not queue.is_sending:
            queue.is_sending = True
            self._start(self._send_all(queue), f"messages for {queue.topic}")
        elif queue.is_over:
            self._queues.pop(queue.topic, None)

    async def _send_all(self, queue: TopicQueue) -> None:
        while queue.has_more:
            # Each try to write to a topic in an outage waits its turn, whoever has messages for it.
            await self.cluster.outages.until_due(queue.topic)
            producer = await self._producer()
            if queue.must_resend or queue.sender is not producer:
                await queue.requeue()
                queue.sender = self._current
                # Another producer might overtake what the one before has on its way.
                continue  # what came back may have retired it
            if not producer.open:
                self._last_event = time.monotonic()
            # Retired producers end once nothing of theirs is open.
            producer.open += 1  # so it isn't ended amid these
            try:
                await self._send(producer, queue)
            finally:
                self._close_batch(producer)
        queue.is_sending = False
        self._send_if_needed(queue)

    async def _send(self, producer: _Producer, queue: TopicQueue) -> None:
        """Send until all that waits is on its way, or has failed, or something has to be sent again."""
        topic = queue.topic
        try:
            targets = await targets_of(producer.client, topic)
        except NoAnswerError:
            await asyncio.sleep(_FIRST_RETRY_SECONDS)  # no message has failed: all of them wait
            return
        except Exception as error:  # whatever the client makes of it
            if fault_of(error) is Fault.PRODUCER:
                self._retire(producer)
            self.cluster.on_topic_away(topic, error)
            self.cluster.report_waiting(queue.waiting)
            return
        max_bytes, alone, queue.alone = self.cluster.limits.get(topic), queue.alone, 0
        create = producer.client.create_batch
        queue.packed.extend(pack(queue.waiting, create, targets, max_bytes, alone))
        while queue.packed:
            batch = queue.packed.popleft()
            if queue.must_resend:
                queue.resend_later(batch)  # in its place
            elif batch.builder is None:
                self.cluster.fail(batch.messages, MissingPartitionError())
            else:
                await self._send_batch(producer, queue, batch)

    async def _send_batch(self, producer: _Producer, queue: TopicQueue, batch: MessageBatch) -> None:
        """Send one batch. Returns once there is room for the next one of its partition."""
        producer.open += 1
        queue.on_sent(batch)
        try:
            written = await producer.client.send_batch(batch.builder, queue.topic, partition=batch.partition)
        except Exception as error:  # whatever the client makes of it
            self._on_failed(producer, queue, batch, error)
            self._ended(producer, queue, batch)
        else:
            written.add_done_callback(partial(self._on_written, producer, queue, batch))

    def _on_written(
        self, producer: _Producer, queue: TopicQueue, batch: MessageBatch, written: asyncio.Future[Any]
    ) -> None:
        # A producer that is discarded cancels what it hasn't sent: its messages go by the next one.
        error = ProducerClosed() if written.cancelled() else written.exception()
        if error is None:
            batch.confirm(written.result().offset)
            self.cluster.outages.end(queue.topic)
        else:
            self._retire(producer)  # it has counted the failed batch: the broker refuses what follows
            self._on_failed(producer, queue, batch, error)
        self._ended(producer, queue, batch)

    def _on_failed(
        self, producer: _Producer, queue: TopicQueue, batch: MessageBatch, error: BaseException
    ) -> None:
        fault = fault_of(error)
        if fault is Fault.MESSAGES or (fault is Fault.BATCH and len(batch.messages) == 1):
            self.cluster.fail(batch.messages, error)
            return
        queue.resend_later(batch)
        if fault is Fault.PRODUCER:
            self._retire(producer)
        elif fault is Fault.TOPIC:
            self.cluster.on_topic_away(queue.topic, error)
            self.cluster.report_waiting(batch.messages)
        elif isinstance(error, TOO_LARGE):
            self.cluster.limits.on_refused(queue.topic, batch.builder.size())
        else:
            batch.must_split = True

    def _ended(self, producer: _Producer, queue: TopicQueue, batch: MessageBatch) -> None:
        queue.on_ended(batch)
        self._send_if_needed(queue)
        self._close_batch(producer)

    def _close_batch(self, producer: _Producer) -> None:
        self._last_event = time.monotonic()
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
        """Return the current producer, or a new one, for which all wait together.

        A refused sign-in is waited out, too: no record is to blame for that, and none is to end as a dead
        letter.
        """
        # One start for all topics: a broker that is away, or refuses the sign-in, is asked once for all of
        # them.
        async with self._starting:
            wait_seconds = _FIRST_RETRY_SECONDS
            while self._current is None:
                try:
                    with connect_errors() as heard:
                        client = await start_producer(self._access, self._client_id)
                except KafkaError as error:
                    self._report_not_started(error, heard)
                    await asyncio.sleep(wait_seconds)
                    wait_seconds = min(2 * wait_seconds, _MAX_RETRY_SECONDS)  # brokers may lock out
                else:
                    self._sign_ins.watch(client.client)
                    self._current = _Producer(client)
            if self._problem:
                logger.info("%s takes messages now", self._access)
                self._problem = ""
            return self._current

    def _report_not_started(self, error: KafkaError, heard: ConnectErrors) -> None:
        problem = refusal(error, self._access) or not_connected(heard, self._access, error)
        if isinstance(error, ClusterAuthorizationFailedError):
            problem = f"{self._access} does not let this user write to any topic"
        if problem != self._problem:
            logger.warning("%s; %s; trying again", problem, WHAT_WAITS)
        self._problem = problem
        for queue in self._queues.values():
            self.cluster.report_waiting(queue.waiting)

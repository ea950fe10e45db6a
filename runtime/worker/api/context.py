"""The `context` of a handler: nuclio_sdk's, with what this runtime adds."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.runtime.wire.produce import Message
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.worker.api import sdk
from headrace.runtime.worker.api.acks import WorkerAcks, record_place
from headrace.runtime.worker.api.function_calls import FunctionCaller, HttpFunctionCaller, run_in_thread
from headrace.runtime.worker.api.metrics import HandlerMetrics
from headrace.runtime.worker.api.producing import PendingMessage, WorkerProducer, encode_value, header_pairs
from headrace.runtime.worker.api.record_id import CURRENT_RECORD, CURRENT_RECORD_ID, RecordId
from headrace.runtime.worker.api.spark import WorkerSpark
from headrace.runtime.worker.api.user_traceback import describe_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


HANDLER_LOGGER = "headrace.handler"
"""Name of the logger behind `context.logger`."""
logger = logging.getLogger(__name__)

T = TypeVar("T")


class EventTasks:
    """Tasks that work for an event beyond the return of its handler: kept, and nacked where they fail.

    The event loop has only weak references to tasks, so they are kept here.
    """

    def __init__(self, acks: WorkerAcks) -> None:
        self._acks = acks
        self._tasks: set[asyncio.Task[Any]] = set()

    def create(self, coroutine: Coroutine[Any, Any, T], event: Any) -> asyncio.Task[T]:
        """Start a task for `event` on the loop that runs here. Raises RuntimeError where none does."""
        # The task's own context names its record, whichever record runs meanwhile.
        context = copy_context()
        context.run(CURRENT_RECORD_ID.set, RecordId(*record_place(event)))
        context.run(CURRENT_RECORD.set, getattr(event, "_record", None))
        task = asyncio.get_running_loop().create_task(coroutine, context=context)
        self._tasks.add(task)
        # In its context: what is logged at its end belongs to its record.
        task.add_done_callback(lambda task: self._ended(task, event), context=context)
        return task

    def _ended(self, task: asyncio.Task[Any], event: Any) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._nack(event, "its task was cancelled")
        elif (error := task.exception()) is not None:
            self._nack(event, describe_failure(error))

    def _nack(self, event: Any, reason: str) -> None:
        if not self._acks.nack(event, reason):
            message = "a task of %s/%d offset %d failed, which changes nothing: %s"
            logger.error(message, *record_place(event), reason)


class Platform(sdk.Platform):
    """`context.platform`: acks, calls of other functions, and Nuclio's callbacks."""

    calls: FunctionCaller
    """Calls other functions for `call_function`. Tests may replace it."""

    def __init__(self, acks: WorkerAcks, namespace: str, function_addresses: Mapping[str, str]) -> None:
        super().__init__("local", namespace)
        self._acks = acks
        self.calls = HttpFunctionCaller(function_addresses, self._get_function_url)

    async def explicit_ack(self, qualified_offset: sdk.QualifiedOffset) -> bool:
        """Ack one record: it is not delivered again. From any thread, on any event loop; never waits for it.

        True once the ack is on its way, ahead of all that this worker sends later; the next commit (within a
        second, or before the partition leaves) makes it durable. False where this replica is known not to own
        the partition: keep the offset until the record comes back where it is. False as well where its topic
        was made anew since: the record is no more. An event names its record as well. With explicitAckMode
        disable it does nothing, says so once, and returns False. Raises RuntimeError in a process that the
        handler has forked: none of its acks would count.
        """
        return self._acks.ack(qualified_offset, is_through=False)

    async def explicit_ack_through(self, qualified_offset: sdk.QualifiedOffset) -> bool:
        """Ack this record and all before it in its partition; else like `explicit_ack`."""
        return self._acks.ack(qualified_offset, is_through=True)

    async def explicit_nack(self, qualified_offset: sdk.QualifiedOffset, reason: str = "") -> bool:
        """Say that a record has failed, whether its handler has returned or not: onFailure decides.

        It counts as a failed attempt, which survives a restart, with `reason` for the log and the dead
        letter. Returns, and raises, as `explicit_ack`. Of no effect once the record is acked.
        """
        return self._acks.nack(qualified_offset, reason or "it was nacked, without a reason")

    def call_function(
        self,
        function_name: str,
        event: Any,
        node: str | None = None,  # no use is made of it, as in the SDK
        timeout: float | None = None,
        service_name_override: str | None = None,
    ) -> sdk.Response:
        """Send `event` to another function, over HTTP, and return its answer. Blocks.

        A function that runs together with this one is asked where its http trigger listens, any other one at
        port 8080 of `nuclio-NAMESPACE-NAME`, or of the host `service_name_override`. The event's method,
        path, headers and body go there; a body that is no text and no bytes goes as JSON. An answer of
        whatever status is a Response, with its body parsed where that is JSON.

        Raises TimeoutError after `timeout` seconds without a word (None: never), ConnectionError where nobody
        answers. A function that calls itself needs a free worker for that.
        """
        return self.calls(function_name, event, timeout, service_name_override)

    async def call_function_async(
        self,
        function_name: str,
        event: Any,
        node: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # as in call_function
        service_name_override: str | None = None,
    ) -> sdk.Response:
        """`call_function` that lets the event loop turn meanwhile: many calls may be under way."""
        return await run_in_thread(lambda: self.calls(function_name, event, timeout, service_name_override))

    def on_signal(self, callback: Callable[[], Any]) -> None:
        """Have `callback` called, without arguments, when partitions leave and when the replica stops.

        Sync or async. It runs while handlers run: on their event loop if that turns, else in another thread.
        """
        self.set_drain_callback(callback)
        self.set_termination_callback(callback)

    @property
    def drain_callback(self) -> Callable[[], Any] | None:
        """The callback that `set_drain_callback` was given last."""
        return self._drain_callback

    @property
    def termination_callback(self) -> Callable[[], Any] | None:
        """The callback that `set_termination_callback` was given last."""
        return self._termination_callback


class Context(sdk.Context):
    """Nuclio's context, with messages, metrics, tasks and a Spark session."""

    logger: sdk.Logger
    platform: Platform
    metrics: HandlerMetrics
    """Counters, gauges and histograms of the handler's own, which /metrics shows beside the runtime's."""
    user_data: Any
    """The handler's own: attributes that init_context sets here, handlers find."""
    worker_id: str
    trigger: sdk.TriggerInfo
    trigger_name: str
    Response: type[sdk.Response]
    source_options: Mapping[str, str]
    """Options with which Spark's Kafka source reads the topics, with `delivery: ranges`."""

    def __init__(
        self,
        spark: WorkerSpark,
        tasks: EventTasks,
        producer: WorkerProducer,
        metrics: HandlerMetrics,
        source_options: Mapping[str, str],
        **parts: Any,
    ) -> None:
        super().__init__(**parts)
        self._producer = producer
        self.metrics = metrics
        self._spark = spark
        self._tasks = tasks
        self.source_options = source_options

    def produce(  # noqa: PLR0913, PLR0917  # what a message is
        self,
        topic: str,
        value: Any,
        key: bytes | str | None = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        *,
        output: str = "",
    ) -> PendingMessage:
        """Send a message on: to the brokers of the trigger, or of the function's `output` of that name.

        `value`: bytes, text, None, or what goes as JSON. `headers`: a mapping or pairs, of names and bytes or
        text. `timestamp` in ms since the epoch. Returns at once; await what it returns, or call its
        `result()`, for partition and offset. The record that the handler is in isn't settled before the
        broker has confirmed all that its handler has produced, and fails where that can't be written. Where
        much isn't confirmed it blocks. From any thread, and from a task of `create_task`. Raises ValueError,
        or TypeError, for what can't be a message.
        """
        if not topic:
            raise ValueError("produce: a message needs a topic")
        if value is None and key is None:
            raise ValueError(f"produce({topic}): a message needs a value or a key")
        if partition is not None and partition < 0:
            raise ValueError(f"produce({topic}): partition {partition} is none")
        message = Message(
            topic, encode_value(value), encode_value(key), header_pairs(headers), partition, timestamp, output
        )
        return self._producer.produce(message)

    def create_task(self, coroutine: Coroutine[Any, Any, T], event: Any) -> asyncio.Task[T]:
        """Run `coroutine` on the worker's event loop for `event`, beyond the handler's return.

        The task is kept until it ends, and its log lines belong to the event. Where it raises, or is
        cancelled, the event's record is nacked: see `explicit_nack`. The record isn't acked by it: that is
        the task's to do.
        """
        return self._tasks.create(coroutine, event)

    @property
    def spark(self) -> "SparkSession":
        """The worker's SparkSession, over Spark Connect. Ask for it in each call: it replaces a lost one.

        The first access takes about a second. Raises AttributeError where function.yaml has no spec.spark.
        """
        session: SparkSession = self._spark.session
        return session


def create_context(  # noqa: PLR0913, PLR0917  # what a context is made of
    start: WorkerStart,
    trigger: sdk.TriggerInfo,
    acks: WorkerAcks,
    producer: WorkerProducer,
    metrics: HandlerMetrics,
    spark: WorkerSpark,
) -> Context:
    """Return the one context of a worker process. `worker_id` is a string in handlers, as in Nuclio."""
    return Context(
        spark,
        EventTasks(acks),
        producer,
        metrics,
        start.source_options,
        logger=sdk.Logger(logging.DEBUG, HANDLER_LOGGER),
        platform=Platform(acks, start.namespace, start.function_addresses),
        worker_id=str(start.worker_id),
        trigger=trigger,
    )

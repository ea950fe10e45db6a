"""The main thread of a worker: it calls the handler with what has come, and lets the loop turn."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from functools import partial
from pathlib import Path
from typing import Any

from headrace.runtime.spark.link import SharedToken
from headrace.runtime.wire.framing import FrameKind, frame
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.records import decode_records, decode_run_header, decode_run_span, decode_slice
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.wire.undecoded import Decode
from headrace.runtime.worker.api.acks import WorkerAcks
from headrace.runtime.worker.api.context import create_context
from headrace.runtime.worker.api.event_classes import load_event_sources
from headrace.runtime.worker.api.event_loop import WorkerEventLoop
from headrace.runtime.worker.api.metrics import HandlerMetrics
from headrace.runtime.worker.api.producing import WorkerProducer
from headrace.runtime.worker.api.spark import WorkerSpark
from headrace.runtime.worker.api.user_traceback import describe_failure
from headrace.runtime.worker.batch_calls import BatchCalls
from headrace.runtime.worker.callbacks import Callbacks
from headrace.runtime.worker.calls import CallEnvironment
from headrace.runtime.worker.concurrent_calls import ConcurrentCalls
from headrace.runtime.worker.context_variables import ContextVariables, as_coroutine
from headrace.runtime.worker.forks import ForkGuard
from headrace.runtime.worker.handler import (
    Handler,
    HandlerNotLoadedError,
    load_handler,
    load_named,
)
from headrace.runtime.worker.inbox import Inbox, PendingRun, ReceivedChunks, no_decoder
from headrace.runtime.worker.lanes import WorkerLanes
from headrace.runtime.worker.record_calls import RecordCalls
from headrace.runtime.worker.results import ResultTopic
from headrace.runtime.worker.tracing import NoTraces, Traces


class WorkerLoop:
    """A worker process without its socket: frames go in by its methods, and come out by `send`.

    Methods that name a thread are called by that one; `abandon` in a process that the handler has forked. The
    others belong to the main thread.
    """

    def __init__(
        self,
        send: Callable[[bytes], None],
        slot: ProgressSlot,
        start: WorkerStart,
        loop: WorkerEventLoop,
        *,
        sends_metrics: bool = False,
    ) -> None:
        """`send` writes whole frames to the processor, from any thread.

        With `sends_metrics` the handler's metrics are sent as they change, otherwise only at the end. Raises
        HandlerNotLoadedError if the trigger's decoder or event class can't be loaded.
        """
        self._send = send
        self._slot = slot
        self._start = start
        self._loop = loop
        asyncio.set_event_loop(loop)  # modules may ask for it while they are imported
        self._is_idle = False
        self._is_woken = False
        self._forks = ForkGuard()
        self.inbox = Inbox(send, self._wake, slot)
        self.acks = WorkerAcks(send, slot, start)
        loop.attribute_tasks_to(self.acks.record_id)
        sources = load_event_sources(start, load_named)
        self.lanes = WorkerLanes(sources, self.acks, takes_acks=start.takes_acks)
        self._spark = WorkerSpark(
            start.spark_url,
            start.spark_session_id,
            start.spark_conf,
            start.module,
            on_new_id=lambda session_id: send(frame(FrameKind.SPARK_SESSION, session_id.encode())),
            token=SharedToken.take(start.spark_token_fd) if start.spark_token_fd >= 0 else None,
        )
        self.producer = WorkerProducer(
            send,
            self.acks.producer,
            start.outputs,
            start.produce_topics,
            # A trigger that shares the workers of a stream has no transaction to put messages into.
            is_transactional=lambda lane_id: start.exactly_once and self.lanes.is_own(lane_id),
        )
        self.metrics = HandlerMetrics(send, sends_by_itself=sends_metrics)
        self._context = create_context(
            start, sources[0].trigger, self.acks, self.producer, self.metrics, self._spark
        )
        self._callbacks = Callbacks(loop, self._is_in_sync_handler)
        decode: Decode = no_decoder
        if start.decoder:
            decode = partial(load_named("decoder", start.decoder), **start.decoder_options)
        self._chunks = ReceivedChunks(decode)
        self._handler: Handler
        self._variables: ContextVariables
        self._calls: RecordCalls | BatchCalls | ConcurrentCalls
        self._concurrent: ConcurrentCalls | None = None  # `_calls`, if it is one

    def load(self, folder: Path, module_name: str, function_name: str, traces: Traces | None = None) -> None:
        """Import the handler and run its init_context. Raises HandlerNotLoadedError."""
        handler, init_context = load_handler(folder, module_name, function_name)
        self.use(handler, init_context, traces)

    def use(self, handler: Handler, init_context: Any, traces: Traces | None = None) -> None:
        """Run init_context, and have this handler called from now on, with a span around each call.

        Raises HandlerNotLoadedError.
        """
        start, traces = self._start, traces or NoTraces()
        if start.result_topic:
            name = self.lanes.own_source.trigger.name
            call = ResultTopic(handler.call, name, start.result_topic, self._context.produce)
            handler = Handler(call, handler.is_async)
        handler = self._handler = Handler(traces.around(handler.call), handler.is_async)
        self.producer.trace_with(traces.headers)
        context = copy_context()
        if init_context is not None:
            _prepare(init_context, self._context, self._loop, context)
        self._variables = ContextVariables(context)
        environment = CallEnvironment(
            send=self._send,
            slot=self._slot,
            start=start,
            loop=self._loop,
            inbox=self.inbox,
            lanes=self.lanes,
            acks=self.acks,
            forks=self._forks,
            handler=handler,
            context=self._context,
            variables=self._variables,
        )
        if start.is_batch:
            self._calls = BatchCalls(environment, self._spark)
        elif handler.is_async and start.places:
            self._calls = self._concurrent = ConcurrentCalls(environment)
        else:
            self._calls = RecordCalls(environment)

    @property
    def is_async(self) -> bool:
        """Whether calls of the handler need a running event loop, and can be cancelled."""
        return self._handler.is_async

    # ---- for the link thread

    def forget_lane(self, lane_id: int) -> None:
        """Drop a lane whose assignment is over (link thread)."""
        self.lanes.forget(lane_id)
        self.inbox.forget(lane_id)

    def receive(self, kind: FrameKind, body: bytes) -> None:
        """Take in records to handle, or a chunk that slices will refer to (link thread)."""
        if kind is FrameKind.CHUNK:
            self._chunks.receive(body)
            return
        header = decode_run_header(body)
        # Only the span is read now. The records are decoded when their turn comes, unless recalled before.
        decode: Callable[[], Sequence[Any]]
        if kind is FrameKind.RUN:
            span, decode = decode_run_span(body), partial(decode_records, body)
        else:
            chunk_id, skip, first, is_end = decode_slice(body)
            chunk = self._chunks.of_slice(chunk_id, is_end=is_end)
            span, decode = (first, first + header.count), partial(chunk.read, skip, header.count)
        view = self.lanes.view(header)
        assert view is not None, "LANE comes before the first run, FORGET behind the last one"
        view.received(*span)
        self.inbox.put(PendingRun(header, decode))

    def drain(self) -> None:
        """Call the user's drain callback: partitions are being taken away (link thread)."""
        self._callbacks.call("drain", self._context.platform.drain_callback)

    def terminate(self) -> None:
        """Call the user's termination callback: the replica stops (link thread)."""
        self._callbacks.call("termination", self._context.platform.termination_callback)

    def cancel(self, seq: int, why: str) -> None:
        """Cancel the call with `seq`, if the handler, which is async, is still in it (link thread)."""
        self._calls.cancel(seq, why)

    def on_taken(self, seq: int, byte_count: int) -> None:
        """Note how many bytes of the parts of the answer to `seq` were taken (link thread)."""
        if not isinstance(self._calls, BatchCalls):  # answers to batches go out whole
            self._calls.on_taken(seq, byte_count)

    def abandon(self) -> None:
        """Let go of everything, in a process that the handler has forked: all of it is its parent's."""
        self._forks.abandon()
        self._slot.abandon()
        self.inbox.abandon()
        self.acks.abandon()
        self.producer.abandon()
        self.metrics.abandon()
        self._loop.abandon()

    def _is_in_sync_handler(self) -> bool:
        """Whether a sync handler runs now (any thread)."""
        return not self._handler.is_async and self._slot.read().is_running

    # ---- for the main thread

    def run_forever(self) -> None:
        """Handle the records that come, until the processor says stop.

        While idle the event loop turns, so background tasks go on.
        """
        calls = self._calls
        if isinstance(calls, ConcurrentCalls):
            self._loop.run_until_complete(calls.serve())
        else:
            self._handle_one_by_one(calls)
        self._callbacks.wait()
        self.metrics.flush()

    def _handle_one_by_one(self, calls: RecordCalls | BatchCalls) -> None:
        while not self.inbox.is_finished:
            work = calls.next_work()
            if work is None:
                self._idle()
            elif self._handler.is_async:
                # One task handles run after run while any waits: to begin and end the loop for each run costs
                # as much as a hundred records.
                run = _one_after_another(calls, work)
                task = asyncio.Task(run, loop=self._loop, context=self._variables.shared)
                self._loop.run_until_complete(task)
            else:
                with self._loop.held():
                    self._variables.shared.run(_step, work)
                if self._loop.due or self._loop.waits:
                    self._loop.turn()

    def _idle(self) -> None:
        """Return once something has come, at once if it is here already.

        The loop turns meanwhile, if it has anything to do.
        """
        self._is_woken = False
        self._is_idle = True
        if self.inbox.is_empty and not self._loop.wait():  # what came before this was set has woken nobody
            self._loop.turn_until_stopped()
        self._is_idle = False

    def _wake(self) -> None:
        """Say that something has come (any thread)."""
        if self._concurrent is not None:
            self._concurrent.wake()
        elif self._is_idle and not self._is_woken:  # a loop that isn't idle looks by itself
            # Set before the ring: a ring that comes late ends the next wait instead, which does no harm.
            self._is_woken = True
            if not self._loop.ring():
                self._loop.call_soon_threadsafe(self._stop_idling)

    def _stop_idling(self) -> None:
        if self._is_idle:  # otherwise a handler has the loop turn
            self._loop.stop()


def _prepare(init_context: Any, handler_context: Any, loop: WorkerEventLoop, context: Context) -> None:
    """Call init_context, so that context variables that it sets are in `context`.

    Raises HandlerNotLoadedError.
    """
    try:
        with loop.held():
            result = context.run(init_context, handler_context)
        if inspect.isawaitable(result):
            # Not by create_task: a task factory that init_context has set may know no contexts.
            loop.run_until_complete(asyncio.Task(as_coroutine(result), loop=loop, context=context))
    except BaseException as error:  # user code may raise anything
        text = f"init_context raised, in your code:\n{describe_failure(error)}"
        raise HandlerNotLoadedError(text) from None


async def _one_after_another(calls: RecordCalls | BatchCalls, work: Coroutine[Any, Any, None] | None) -> None:
    while work is not None:
        await work
        await asyncio.sleep(0)  # the loop turns between two runs
        work = calls.next_work()


def _step(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that awaits nothing, without an event loop.

    So one body serves both kinds of handler.
    """
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("nothing is awaited for a sync handler")

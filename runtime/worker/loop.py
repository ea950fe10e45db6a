"""The main thread of a worker process: one run or batch after another, and nothing else."""

import asyncio
import inspect
import os
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextvars import Context, copy_context
from functools import partial
from itertools import compress
from operator import itemgetter, not_
from pathlib import Path
from types import CoroutineType
from typing import Any

from headrace.runtime.spark.link import SharedToken
from headrace.runtime.wire import records as wire
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.records import FrameKind
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.wire.undecoded import Decode, UndecodableRecord
from headrace.runtime.worker import results as handler_results
from headrace.runtime.worker.api.acks import WorkerAcks
from headrace.runtime.worker.api.context import create_context
from headrace.runtime.worker.api.event import Event, PartitionView
from headrace.runtime.worker.api.event_classes import EventSource, load_event_sources
from headrace.runtime.worker.api.event_loop import WorkerEventLoop
from headrace.runtime.worker.api.metrics import HandlerMetrics
from headrace.runtime.worker.api.producing import WorkerProducer
from headrace.runtime.worker.api.spark import WorkerSpark
from headrace.runtime.worker.api.user_traceback import describe_failure
from headrace.runtime.worker.callbacks import Callbacks
from headrace.runtime.worker.cancellation import CallCancellation
from headrace.runtime.worker.concurrent_calls import RETURNED_LATE, CallEnvironment, ConcurrentCalls
from headrace.runtime.worker.context_variables import ContextVariables, as_coroutine
from headrace.runtime.worker.handler import (
    Handler,
    HandlerNotLoadedError,
    load_handler,
    load_named,
)
from headrace.runtime.worker.inbox import Inbox, PendingRun, ReceivedChunks, no_decoder
from headrace.runtime.worker.link import Sender
from headrace.runtime.worker.replies import ReplySender, answers
from headrace.runtime.worker.result_topic import ResultTopic
from headrace.runtime.worker.results import HandlerReturnedError, RecordOutcome
from headrace.runtime.worker.tracing import NoTraces, Traces

_QUICK_NS = 100_000
"""Quicker records are told apart by nothing: their handler's shortest bucket has all of them."""


class WorkerLoop:
    """Methods that say so are called by the link thread; the others belong to the main thread."""

    def __init__(self, link: Sender, slot: ProgressSlot, start: WorkerStart, loop: WorkerEventLoop) -> None:
        """Raises HandlerNotLoadedError where what the trigger brings can't be loaded."""
        self._link = link
        self._slot = slot
        self._loop = loop
        asyncio.set_event_loop(loop)  # modules may ask for it while they are imported
        self._is_idle = False
        self._is_woken = False
        self._is_forked = False
        self.inbox = Inbox(link.send, self._wake, slot.enter_run)
        self.acks = WorkerAcks(link.send, slot, start)
        self.replies = ReplySender(self.acks.flush, loop)
        self._may_ask_no_ack = start.ack_mode == "enable"
        self._must_ack = start.ack_mode == "explicitOnly"
        self._takes_acks = start.takes_acks
        self._is_batch = start.is_batch
        self._places = start.places
        self._result_topic = start.result_topic
        self._at_once: ConcurrentCalls | None = None
        loop.place = self.acks.place
        self._sources = load_event_sources(start, load_named)
        self._source_of: dict[int, EventSource] = {}  # by lane
        self._spark = WorkerSpark(
            start.spark_url,
            start.spark_session_id,
            start.spark_conf,
            start.module,
            on_new_id=lambda session_id: link.send(wire.frame(FrameKind.SPARK_SESSION, session_id.encode())),
            token=SharedToken.take(start.spark_token_fd) if start.spark_token_fd >= 0 else None,
        )
        self._exactly_once, own = start.exactly_once, self._sources[0].trigger
        self.produces = WorkerProducer(
            link.send,
            self.acks.producer,
            start.outputs,
            start.produce_topics,
            # Of the stream, not of a trigger that shares its workers, nor of none.
            is_transactional=lambda it: (
                self._exactly_once and getattr(self._source_of.get(it), "trigger", None) is own
            ),
        )
        self.traces: Traces = NoTraces()
        """Of the handler's calls. Whoever loads it may set others before."""
        self._context = create_context(start, own, self.acks, self.produces, self._spark)
        self._context.metrics = self.metrics = HandlerMetrics(link.send)
        self._callbacks = Callbacks(self._loop, self._is_in_sync_handler)
        self._views: dict[int, PartitionView] = {}
        decode: Decode = no_decoder
        if start.decoder:
            decode = partial(load_named("decoder", start.decoder), **start.decoder_options)
        self._chunks = ReceivedChunks(decode)
        self._handler: Handler
        self._call: Callable[[Any, Any], Any]
        self._contexts: ContextVariables
        self._cancelling = CallCancellation(slot, loop)

    def load(self, folder: Path, module_name: str, function_name: str) -> None:
        """Import the handler and run its init_context. Raises HandlerNotLoadedError."""
        self.use(*load_handler(folder, module_name, function_name))

    def use(self, handler: Handler, init_context: Any) -> None:
        """Call this handler, after its init_context if there is one. Raises HandlerNotLoadedError."""
        if self._result_topic:
            name = self._sources[0].trigger.name
            call = ResultTopic(handler.call, name, self._result_topic, self._context.produce)
            handler = Handler(call, handler.is_async)
        handler = Handler(self.traces.around(handler.call), handler.is_async)
        self.produces.trace_headers = self.traces.headers
        self._handler, self._call = handler, handler.call
        context = copy_context()
        if init_context is not None:
            _prepare(init_context, self._context, self._loop, context)
        self._contexts = ContextVariables(context)
        if handler.is_async and self._places:
            self._at_once = self._overlapping(handler)

    @property
    def is_async(self) -> bool:
        """Whether calls of the handler need a running event loop, and can be cancelled."""
        return self._handler.is_async

    # ---- for the link thread

    def add_lane(self, lane_id: int, topic: str, partition: int, source: int = 0, log: str = "") -> None:
        """Runs name lanes by id, which stand for a partition, or for events of a trigger that shares this."""
        it = self._sources[source]
        view = PartitionView(topic, partition, it.trigger, lane_id, log=log)
        self._source_of[lane_id] = it.of(view) if self._takes_acks else it
        self._views[lane_id] = view
        self.acks.add_lane(view)

    def forget_lane(self, lane_id: int) -> None:
        """Its assignment is over."""
        self._views.pop(lane_id, None)
        self._source_of.pop(lane_id, None)
        self.inbox.forget(lane_id)

    def receive(self, kind: FrameKind, body: bytes) -> None:
        """Records to handle, or a chunk that slices will refer to."""
        if kind is FrameKind.CHUNK:
            self._chunks.receive(body)
            return
        header = wire.decode_run_header(body)
        decode: Callable[[], Sequence[Any]]
        if kind is FrameKind.RUN:
            span, decode = wire.decode_run_span(body), partial(wire.decode_records, body)
        else:
            chunk_id, skip, first, is_end = wire.decode_slice(body)
            chunk = self._chunks.of_slice(chunk_id, is_end=is_end)
            span, decode = (first, first + header.count), partial(chunk.read, skip, header.count)
        self._views[header.place_id].received(*span)
        self.inbox.put(PendingRun(header, decode))

    def drain(self) -> None:
        """Partitions are being taken away."""
        self._callbacks.call("drain", self._context.platform.drain_callback)

    def terminate(self) -> None:
        """The replica stops."""
        self._callbacks.call("termination", self._context.platform.termination_callback)

    def cancel(self, seq: int, why: str) -> None:
        """If the handler, which is async, is still in `seq`: that has failed, and is cancelled."""
        if self._at_once is not None:
            self._at_once.cancel(seq, why)
        else:
            self._cancelling.cancel(seq, why)

    def on_taken(self, seq: int, byte_count: int) -> None:
        """So much of the answer's parts to `seq` was taken."""
        (self.replies if self._at_once is None else self._at_once).on_taken(seq, byte_count)

    def abandon(self) -> None:
        """In a process that the handler has forked: records, slot and event loop are its parent's."""
        self._is_forked = True
        self._slot.abandon()
        self.inbox.abandon()
        self.acks.abandon()
        self.produces.abandon()
        self.metrics.abandon()
        self._loop.abandon()

    def _is_in_sync_handler(self) -> bool:
        return not self._handler.is_async and self._slot.read().is_running

    def _overlapping(self, handler: Handler) -> ConcurrentCalls:
        self.inbox.enter = self._slot.enter_beside
        self.inbox.on_decoded = lambda seq: self._slot.calls.wait(seq)  # noqa: PLW0108  # a fork has others
        return ConcurrentCalls(
            CallEnvironment(
                send=self._link.send,
                slot=self._slot,
                loop=self._loop,
                inbox=self.inbox,
                call=partial(handler.call, self._context),
                first_context=self._contexts.first,
                place_of=self._place_of,
                end_fork=self._end_fork,
                may_ask_no_ack=self._may_ask_no_ack,
            )
        )

    def _place_of(self, header: wire.RunHeader) -> tuple[Any, EventSource]:
        """The view is None where the lane is over by now: then the run was recalled, and is empty."""
        place_id = header.place_id
        return self._views.get(place_id), self._source_of.get(place_id, self._sources[0])

    # ---- for the main thread

    def run_forever(self) -> None:
        """Until the processor says stop. While idle the event loop turns, so background tasks go on."""
        if self._at_once is not None:
            self._loop.run_until_complete(self._at_once.serve())
        while not self.inbox.is_finished:
            work = self._next_work()
            if work is None:
                self._idle()
            elif self._handler.is_async:
                run = self._one_after_another(work)
                task = asyncio.Task(run, loop=self._loop, context=self._contexts.shared)
                self._loop.run_until_complete(task)
            else:
                with self._loop.held():
                    self._contexts.shared.run(_step, work)
                if self._loop.due or self._loop.waits:
                    self._loop.turn()
        self._callbacks.wait()
        self.metrics.flush()

    def _next_work(self) -> Coroutine[Any, Any, None] | None:
        if self._is_batch:
            batch = self.inbox.next_batch()
            return self._contexts.alone(self._handle_batch(batch)) if batch else None
        run = self.inbox.next()
        return self._handle_run(run) if run else None

    async def _one_after_another(self, work: Coroutine[Any, Any, None] | None) -> None:
        """While something waits: to begin and end the loop for each costs as much as a hundred records."""
        while work is not None:
            await work
            await asyncio.sleep(0)  # between two the loop turns
            work = self._next_work()

    def _idle(self) -> None:
        """Until something comes, which may have been already, let the loop turn if it has anything to do."""
        self._is_woken = False
        self._is_idle = True
        if self.inbox.is_empty and not self._loop.wait():  # what came before this was set has woken nobody
            self._loop.turn_until_stopped()
        self._is_idle = False

    def _wake(self) -> None:
        if self._at_once is not None:
            self._at_once.wake()
        elif self._is_idle and not self._is_woken:  # else it will look by itself
            self._is_woken = True  # first: what comes late ends the next wait too, and nobody waits in vain
            if not self._loop.ring():
                self._loop.call_soon_threadsafe(self._stop_idling)

    def _stop_idling(self) -> None:
        if self._is_idle:  # else it is a handler that has the loop turn
            self._loop.stop()

    # A call per record costs too much.
    async def _handle_run(self, run: PendingRun) -> None:  # noqa: C901, PLR0912, PLR0915
        """All records of a run. Awaits nothing for a sync handler: its calls hold the loop."""
        call, is_async = self._call, self._handler.is_async
        shared, unset = self._contexts.shared, self._contexts.unset
        context, records, cancelling = self._context, run.records, self._cancelling
        view, source = self._place_of(run.header)
        attempt = run.header.attempt
        seq = run.header.first_seq
        enter, new_event, wants_replies = self._slot.enter, source.new_event, source.wants_replies
        self.replies.are_wanted = wants_replies
        if is_async:
            self._cancelling.task = asyncio.current_task()
        started_ns = last_ns = time.monotonic_ns()
        slowest_ns, look_ns = 0, started_ns + _QUICK_NS  # those that are slower are seen
        self.acks.enter(view)
        due, waits = ((), False) if is_async else (self._loop.due, self._loop.waits)
        while records:
            if due or waits:
                waits = self._loop.turn()
            try:
                record = records.popleft()
            except IndexError:  # recalled between the test and the step
                break
            offset = record.offset
            if view.has_acked_ahead and view.is_acked(offset, attempt):
                seq += 1
                continue
            view.record = record
            now_ns = enter(seq)
            if now_ns > look_ns:
                slowest_ns, look_ns = max(slowest_ns, now_ns - last_ns), now_ns + _QUICK_NS
            last_ns = now_ns
            try:
                result = call(context, new_event(record, view, attempt))
                if type(result) is CoroutineType:  # what nearly all async handlers give
                    result = await result if is_async else self._loop.run_until_complete(result)
                if result is not None and handler_results.is_pending(result):
                    rest = self.replies.finish(seq, result)
                    result = await rest if is_async else self._loop.run_until_complete(rest)
                if cancelling.seq == seq:
                    raise HandlerReturnedError(RETURNED_LATE)  # noqa: TRY301  # one way out
                if wants_replies:
                    result = self.replies.answer(seq, result, is_last=not records)
                if result is not None:
                    handler_results.check(result)
                    if self._may_ask_no_ack and handler_results.asks_no_ack(result):
                        self.acks.flush(self.replies.take_held() + wire.encode_seq(FrameKind.UNACKED, seq))
            except BaseException as error:  # user code may raise anything, SystemExit too
                self._end_fork(error)
                self.acks.flush(self.replies.take_held())
                self.inbox.fail(run, seq, self._cancelling.reason(error, seq))
            try:
                has_set = shared != unset
            except Exception:  # what it has set is a kind whose values can't be compared, such as arrays
                has_set = True
            if has_set:  # that call has set a variable, which no other may see
                call = self._call = self._contexts.apart(call)
                unset = shared
            seq += 1
        self._end_fork()
        if not wants_replies:
            self._slot.leave(seq)
        ended_ns = time.monotonic_ns()
        elapsed_ns, slowest_ns = ended_ns - started_ns, max(slowest_ns, ended_ns - last_ns)
        self.acks.leave()
        progress = wire.encode_progress(seq, elapsed_ns, seq - run.header.first_seq, slowest_ns)
        self.acks.flush(self.replies.take_held() + progress)
        if wants_replies:  # only now: whoever finds a record done settles it, and an answer must find it open
            self._slot.leave(seq)

    async def _handle_batch(self, batch: Sequence[PendingRun]) -> None:
        """One call for all. Outcomes leave in one piece, with the progress: a kill finds all or nothing."""
        started_ns = time.perf_counter_ns()
        viewed = [(run, view) for run in batch if (view := self._views.get(run.header.place_id)) is not None]
        unread: list[tuple[int, RecordOutcome]] = []
        of_runs = [_events_of(run, view, self._sources[0].new_event, unread) for run, view in viewed]
        events = [event for of_run in of_runs for event in of_run]
        end = batch[-1].header.first_seq + batch[-1].header.count
        seqs = [seq for seq, _ in events]
        frames: list[bytes] = []
        outcomes: list[RecordOutcome] = []
        if events:
            self._slot.enter_run(events[0][0])
            for of_run in filter(None, of_runs):
                of_run[-1][1].enter()  # and with it those before it
            self.acks.batch = next(view for of_run, (_, view) in zip(of_runs, viewed, strict=True) if of_run)
            outcomes = await self._call_batch([event for _, event in events], seqs[0])
            self.acks.batch = None
            if self._sources[0].wants_replies:
                frames, outcomes = answers(seqs, outcomes)
            if any(view.open_range for _, view in viewed):
                _leave_ranges(events, outcomes, must_ack=self._must_ack)
        if unread:
            told = sorted([*zip(seqs, outcomes, strict=True), *unread], key=itemgetter(0))
            seqs, outcomes = [seq for seq, _ in told], [outcome for _, outcome in told]
        if self._exactly_once:  # with what could not be read: what the handler has produced is of all
            outcomes = handler_results.as_one(outcomes)
        frames += _outcome_frames(seqs, outcomes, may_ask_no_ack=self._may_ask_no_ack)
        elapsed_ns = time.perf_counter_ns() - started_ns
        self._link.send(b"".join((*frames, wire.encode_progress(end, elapsed_ns, len(events)))))
        self._slot.leave(end)

    async def _call_batch(self, events: list[Event], seq: int) -> list[RecordOutcome]:
        is_async = self._handler.is_async
        if is_async:
            self._cancelling.task = asyncio.current_task()
        try:
            # A copy: whatever the handler does with its list, outcomes are told of what was handed over.
            result = self._handler.call(self._context, events.copy())
            if handler_results.is_pending(result):
                rest = handler_results.finish(result, keeps_items=self._sources[0].wants_replies)
                result = await rest if is_async else self._loop.run_until_complete(rest)
            if self._cancelling.seq == seq:
                raise HandlerReturnedError(RETURNED_LATE)  # noqa: TRY301  # one way out
            self._end_fork()
            if self._sources[0].wants_replies:
                result = handler_results.joined(result)
            return handler_results.outcomes(result, events)
        except BaseException as error:  # user code may raise anything, SystemExit too
            self._end_fork(error)
            self._spark.doubt()
            return [RecordOutcome(self._cancelling.reason(error, seq))] * len(events)

    def _end_fork(self, error: BaseException | None = None) -> None:
        """A process that the handler has forked ends where the handler does, and touches nothing."""
        if not self._is_forked:
            return
        # By os._exit: closing the event loop, whose inside it shares, would make its parent deaf.
        if isinstance(error, SystemExit):
            os._exit(error.code if isinstance(error.code, int) else error.code is not None)
        if error is not None:
            traceback.print_exception(error)
        os._exit(error is not None)


def _prepare(init_context: Any, given: Any, loop: WorkerEventLoop, context: Context) -> None:
    """Call it, so that what it sets in context variables is in `context`. Raises HandlerNotLoadedError."""
    try:
        with loop.held():
            result = context.run(init_context, given)
        if inspect.isawaitable(result):
            # Not by create_task: a task factory that init_context has set may know no contexts.
            loop.run_until_complete(asyncio.Task(as_coroutine(result), loop=loop, context=context))
    except BaseException as error:  # user code may raise anything
        text = f"init_context raised, in your code:\n{describe_failure(error)}"
        raise HandlerNotLoadedError(text) from None


def _outcome_frames(
    seqs: Sequence[int], outcomes: Sequence[RecordOutcome], *, may_ask_no_ack: bool
) -> Iterator[bytes]:
    """Of what hasn't simply succeeded."""
    for first, last, outcome in _spans(seqs, outcomes):
        if outcome.failure is not None:
            yield wire.encode_failed(first, last + 1, outcome.failure, is_named=outcome.is_named)
        elif may_ask_no_ack and outcome.asks_no_ack:
            yield from (wire.encode_seq(FrameKind.UNACKED, seq) for seq in range(first, last + 1))


def _spans(
    seqs: Sequence[int], outcomes: Sequence[RecordOutcome]
) -> Iterator[tuple[int, int, RecordOutcome]]:
    """Neighbours that went the same way, as (first, last, outcome)."""
    if outcomes and outcomes.count(outcomes[0]) == len(seqs) == seqs[-1] - seqs[0] + 1:  # nearly always
        yield seqs[0], seqs[-1], outcomes[0]
        return
    begin = 0
    for at in range(1, len(seqs) + 1):
        if at == len(seqs) or seqs[at] != seqs[at - 1] + 1 or not _is_same(outcomes[at], outcomes[begin]):
            yield seqs[begin], seqs[at - 1], outcomes[begin]
            begin = at


def _events_of(
    run: PendingRun,
    view: PartitionView,
    new_event: Callable[[Any, PartitionView, int], Event],
    unread: list[tuple[int, RecordOutcome]],
) -> list[tuple[int, Event]]:
    """Each with its seq, without those that were acked before their turn.

    What can't be decoded has failed by itself, and is added to `unread`: no other record is to blame.
    """
    records: list[tuple[int, Any]] = list(enumerate(run.records, run.header.first_seq))
    if view.has_acked_ahead:
        records = [it for it in records if not view.is_acked(it[1].offset, run.header.attempt)]
    if UndecodableRecord in map(type, run.records):
        is_bad = [isinstance(record, UndecodableRecord) for _, record in records]
        unread += [(seq, RecordOutcome(it.why, is_named=True)) for seq, it in compress(records, is_bad)]
        records = list(compress(records, map(not_, is_bad)))
    return [(seq, new_event(record, view, run.header.attempt)) for seq, record in records]


def _leave_ranges(
    events: Sequence[tuple[int, Event]], outcomes: Sequence[RecordOutcome], *, must_ack: bool
) -> None:
    for (_, event), outcome in zip(events, outcomes, strict=True):
        if outcome.failure is not None or not (must_ack or outcome.asks_no_ack):
            event.leave()


def _is_same(one: RecordOutcome, other: RecordOutcome) -> bool:
    return one is other or one == other  # nearly always one for all of them


def _step(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that awaits nothing, without an event loop."""
    try:
        # One loop body for both kinds of handler.
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("nothing is awaited for a sync handler")

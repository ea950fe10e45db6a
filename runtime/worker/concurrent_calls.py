"""Several records at once in one worker process: calls of an async handler, on its event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextvars import Context
from dataclasses import dataclass
from types import CoroutineType
from typing import Any

from headrace.runtime.wire import records as wire
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.records import FrameKind, RunHeader
from headrace.runtime.worker import results
from headrace.runtime.worker.api.event import PartitionView
from headrace.runtime.worker.api.event_classes import EventSource
from headrace.runtime.worker.api.record_id import CURRENT_RECORD, CURRENT_RECORD_ID, RecordId
from headrace.runtime.worker.api.sdk import Response
from headrace.runtime.worker.api.user_traceback import describe_failure
from headrace.runtime.worker.cancellation import late_reason
from headrace.runtime.worker.context_variables import await_inside
from headrace.runtime.worker.inbox import Inbox, PendingRun
from headrace.runtime.worker.replies import ReplySender

RETURNED_LATE = "the handler returned after that"


@dataclass(frozen=True, slots=True)
class CallEnvironment:
    """What a handler is called with, and where that is told."""

    send: Callable[[bytes], None]
    slot: ProgressSlot
    loop: asyncio.AbstractEventLoop
    inbox: Inbox
    call: Callable[[Any], Any]
    """The handler, with an event."""
    first_context: Context
    """What each call has a copy of."""
    place_of: Callable[[RunHeader], tuple[Any, EventSource]]
    """The view of a run's partition, None where that is over, and the trigger that it is of."""
    end_fork: Callable[[BaseException | None], None]
    """Ends a process that the handler has forked, where that has got."""
    may_ask_no_ack: bool


@dataclass(slots=True, eq=False)
class _CurrentCall:
    """A record that is in the handler."""

    task: asyncio.Task[Any]
    replies: ReplySender
    why_cancelled: str = ""
    is_cancelled: bool = False


class ConcurrentCalls:
    """Records of one lane follow each other, those of different lanes are in the handler together.

    As many as there are places in the slot. What has ended in one turn of the loop leaves in one piece, and
    gives its places back then.
    """

    def __init__(self, means: CallEnvironment) -> None:
        self._means = means
        self._calls: dict[int, _CurrentCall] = {}  # by seq
        self._runs: dict[int, asyncio.Task[None]] = {}  # by lane
        self._said: list[bytes] = []
        self._ended: list[tuple[int, int]] = []
        self._unanswered = ReplySender(means.send, means.loop)  # of all to which nobody wants an answer
        self._woken = asyncio.Event()
        self._is_to_wake = False
        self._broken: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Until the processor says stop, and what runs has ended."""
        inbox = self._means.inbox
        while self._runs or not inbox.is_finished:
            self._woken.clear()
            self._is_to_wake = False
            self._begin()
            await self._woken.wait()
            if self._broken is not None:  # by no handler's failure: the processor mends that
                self._broken.result()
        self._flush()

    def wake(self) -> None:
        """Something has come (any thread)."""
        if not self._is_to_wake:
            self._is_to_wake = True
            self._means.loop.call_soon_threadsafe(self._woken.set)

    def cancel(self, seq: int, why: str) -> None:
        """If the handler is still in `seq`: that has failed, and is cancelled (link thread)."""
        if (call := self._calls.get(seq)) is not None:
            call.why_cancelled = why  # whatever it does now
            self._means.loop.call_soon_threadsafe(self._cancel, seq, call)

    def on_taken(self, seq: int, byte_count: int) -> None:
        """As TAKEN says (link thread)."""
        if (call := self._calls.get(seq)) is not None:
            call.replies.on_taken(seq, byte_count)

    def _cancel(self, seq: int, call: _CurrentCall) -> None:
        """On the loop: so it is at an await, if it is there still."""
        if self._calls.get(seq) is call:
            call.is_cancelled = True
            call.task.cancel()

    def _begin(self) -> None:
        inbox, calls = self._means.inbox, self._means.slot.calls
        while calls.has_place and (run := inbox.next_beside(self._runs)) is not None:
            lane_id = run.header.lane_id
            task = self._runs[lane_id] = self._means.loop.create_task(self._handle(run))
            task.add_done_callback(self._on_run_ended)

    def _on_run_ended(self, run: asyncio.Task[None]) -> None:
        if run.cancelled() or run.exception() is not None:
            self._broken = run
            self._woken.set()

    async def _handle(self, run: PendingRun) -> None:
        means, header = self._means, run.header
        view, source = means.place_of(header)
        seq = header.first_seq
        while run.records:
            try:
                record = run.records.popleft()
            except IndexError:  # recalled between the test and the step
                break
            if seq != header.first_seq:  # that one was entered with the run
                if not means.slot.calls.has_place:
                    self._flush()
                means.slot.enter_beside(seq)
            else:
                means.slot.begin_beside(seq)
            if view.has_acked_ahead and view.is_acked(record.offset, header.attempt):
                self._end(seq, 0)
            else:
                one = self._handle_one(run, seq, record, (view, source))
                await await_inside(means.first_context.copy(), one)
            seq += 1
        if seq == header.first_seq:
            means.slot.calls.leave(seq)  # all of it was recalled
        means.inbox.end(run)
        del self._runs[header.lane_id]
        self._woken.set()

    async def _handle_one(
        self, run: PendingRun, seq: int, record: Any, place: tuple[PartitionView, EventSource]
    ) -> None:
        means, (view, source), task = self._means, place, asyncio.current_task()
        assert task is not None, "it is one"
        view.record = record
        CURRENT_RECORD_ID.set(RecordId(view.topic, view.partition, record.offset))
        CURRENT_RECORD.set(record)
        call = self._calls[seq] = _CurrentCall(task, self._replies(source))
        started_ns = time.perf_counter_ns()
        try:
            result = means.call(source.new_event(record, view, run.header.attempt))
            self._said += await self._rest(seq, call, result)
        except BaseException as error:  # user code may raise anything, SystemExit too
            means.end_fork(error)
            self._flush()
            if answer := call.replies.take_held():
                means.send(answer)
            means.inbox.fail(run, seq, _reason(call, error))
        del self._calls[seq]
        means.end_fork(None)
        self._end(seq, time.perf_counter_ns() - started_ns)

    def _replies(self, source: EventSource) -> ReplySender:
        if not source.wants_replies:
            return self._unanswered
        replies = ReplySender(self._means.send, self._means.loop)
        replies.are_wanted = True
        return replies

    async def _rest(self, seq: int, call: _CurrentCall, result: Any) -> Iterable[bytes]:
        """Do the rest of the handler's work; what is to be said before its end."""
        replies, wants_replies = call.replies, call.replies.are_wanted
        if type(result) is CoroutineType:  # what nearly all async handlers give
            result = await result
        if wants_replies and results.is_stream(result):
            result = _stepwise(result)
        if result is not None and results.is_pending(result):
            result = await replies.finish(seq, result)
            if wants_replies and results.is_stream(result):  # of what isn't quite a coroutine
                result = await replies.finish(seq, _stepwise(result))
        if call.why_cancelled:
            raise results.HandlerReturnedError(RETURNED_LATE)
        if wants_replies:
            result = replies.answer(seq, result, is_last=True)
        if result is not None:
            results.check(result)
        if self._means.may_ask_no_ack and results.asks_no_ack(result):
            self._flush()  # those that it follows have ended before it
            return replies.take_held(), wire.encode_seq(FrameKind.UNACKED, seq)
        return (replies.take_held(),)

    def _end(self, seq: int, handler_ns: int) -> None:
        if not self._ended:
            self._means.loop.call_soon(self._flush)
        self._ended.append((seq, handler_ns))

    def _flush(self) -> None:
        """What has ended is on its way, then gives its places back: a kill between repeats it, no more."""
        if not self._ended:
            return
        self._means.send(b"".join((*self._said, wire.encode_done(self._ended))))
        for seq, _ in self._ended:
            self._means.slot.calls.leave(seq)
        self._said.clear()
        self._ended.clear()
        self._woken.set()


def _reason(call: _CurrentCall, error: BaseException) -> str:
    """Of a failure. If it came of a cancellation, that ends here."""
    if not call.why_cancelled:
        return describe_failure(error)
    return late_reason(error, call.why_cancelled, call.task if call.is_cancelled else None)


def _stepwise(result: Any) -> Any:
    """What a generator yields, with the loop turning between: others run meanwhile."""

    async def each(items: Iterable[Any]) -> AsyncIterator[Any]:
        for item in items:
            yield item
            await asyncio.sleep(0)

    if not isinstance(result, Response):
        return each(result)
    return results.with_body(result, each(result.body))

"""Calls of an async handler with several records at once, on the event loop of one worker process."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from types import CoroutineType
from typing import Any

from headrace.runtime.wire.framing import FrameKind
from headrace.runtime.wire.outcomes import encode_done, encode_seq
from headrace.runtime.worker import results
from headrace.runtime.worker.api.event_classes import EventSource
from headrace.runtime.worker.api.partition_view import PartitionView
from headrace.runtime.worker.api.record_id import CURRENT_RECORD, CURRENT_RECORD_ID, RecordId
from headrace.runtime.worker.api.sdk import Response
from headrace.runtime.worker.api.user_traceback import describe_failure
from headrace.runtime.worker.calls import RETURNED_LATE, CallEnvironment, late_reason
from headrace.runtime.worker.context_variables import await_inside
from headrace.runtime.worker.inbox import PendingRun
from headrace.runtime.worker.replies import ReplySender


@dataclass(slots=True, eq=False)
class _CurrentCall:
    """A call that the handler is in."""

    task: asyncio.Task[Any]
    replies: ReplySender
    why_cancelled: str = ""
    is_cancelled: bool = False


class ConcurrentCalls:
    """Calls the handler with records of different lanes at once, and with those of one lane in order.

    As many run as there are places in the slot. Outcomes of one turn of the loop leave in one piece, and
    their places are free then.
    """

    def __init__(self, environment: CallEnvironment) -> None:
        self._env = environment
        self._may_ask_no_ack = environment.may_ask_no_ack
        self._calls: dict[int, _CurrentCall] = {}  # by seq
        self._runs: dict[int, asyncio.Task[None]] = {}  # by lane
        self._unsent: list[bytes] = []
        self._ended: list[tuple[int, int]] = []
        self._no_replies = ReplySender(environment.send, environment.loop)  # shared by records without one
        self._woken = asyncio.Event()
        self._is_waking = False
        self._broken: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Handle what comes, until the processor says stop and all that runs has ended."""
        inbox = self._env.inbox
        while self._runs or not inbox.is_finished:
            # Before it looks: what comes from here on wakes it anew.
            self._woken.clear()
            self._is_waking = False
            self._begin()
            await self._woken.wait()
            if (
                self._broken is not None
            ):  # by no handler's failure: this process ends, its processor starts another
                self._broken.result()
        self._flush()

    def wake(self) -> None:
        """Say that something has come (any thread)."""
        if not self._is_waking:
            self._is_waking = True
            self._env.loop.call_soon_threadsafe(self._woken.set)

    def cancel(self, seq: int, why: str) -> None:
        """Cancel the call with record `seq`, if the handler is still in it (link thread)."""
        if (call := self._calls.get(seq)) is not None:
            call.why_cancelled = why  # it has failed, whatever it does now
            self._env.loop.call_soon_threadsafe(self._cancel, seq, call)

    def on_taken(self, seq: int, byte_count: int) -> None:
        """Note how many bytes of the parts of an answer were taken (link thread)."""
        if (call := self._calls.get(seq)) is not None:
            call.replies.on_taken(seq, byte_count)

    def _cancel(self, seq: int, call: _CurrentCall) -> None:
        # On the loop: so the call is at an await, if it is there still.
        if self._calls.get(seq) is call:
            call.is_cancelled = True
            call.task.cancel()

    def _begin(self) -> None:
        inbox, places = self._env.inbox, self._env.slot.calls
        # No record starts without a place: a death then counts against no more records than there are.
        while places.has_place and (run := inbox.next_beside(self._runs)) is not None:
            lane_id = run.header.lane_id
            task = self._runs[lane_id] = self._env.loop.create_task(self._handle(run))
            task.add_done_callback(self._on_run_ended)

    def _on_run_ended(self, run: asyncio.Task[None]) -> None:
        if run.cancelled() or run.exception() is not None:
            self._broken = run
            self._woken.set()

    async def _handle(self, run: PendingRun) -> None:
        """Handle the records of a run in order."""
        env, header = self._env, run.header
        view, source = env.lanes.of_run(header)
        seq = header.first_seq
        while run.records:
            try:
                record = run.records.popleft()
            except IndexError:  # recalled between the test and the step
                break
            if seq != header.first_seq:  # that one was entered with the run
                # Records that have ended keep their places until their outcomes are sent.
                if not env.slot.calls.has_place:
                    self._flush()
                env.slot.enter_beside(seq)
            else:
                # It has had its place since it was decoded, without a time: until now it was not to blame for
                # a death.
                env.slot.begin_beside(seq)
            if view.has_acked_ahead and view.is_acked(record.offset, header.attempt):
                self._end(seq, 0)
            else:
                call = self._handle_record(run, seq, record, (view, source))
                await await_inside(env.variables.first.copy(), call)
            seq += 1
        if seq == header.first_seq:
            env.slot.calls.leave(seq)  # all of it was recalled
        env.inbox.end(run)
        del self._runs[header.lane_id]
        self._woken.set()

    async def _handle_record(
        self, run: PendingRun, seq: int, record: Any, origin: tuple[PartitionView, EventSource]
    ) -> None:
        env, (view, source), task = self._env, origin, asyncio.current_task()
        assert task is not None, "it is one"
        view.record = record
        CURRENT_RECORD_ID.set(RecordId(view.topic, view.partition, record.offset))
        CURRENT_RECORD.set(record)
        call = self._calls[seq] = _CurrentCall(task, self._replies_of(source))
        started_ns = time.perf_counter_ns()
        try:
            result = env.handler.call(env.context, source.new_event(record, view, run.header.attempt))
            self._unsent += await self._finish(seq, call, result)
        except BaseException as error:  # user code may raise anything, SystemExit too
            env.forks.end_fork(error)
            # FAILED goes behind the DONE of those that have ended before, and ahead of its own.
            self._flush()
            if answer := call.replies.take_unsent():
                env.send(answer)
            env.inbox.fail(run, seq, _reason(call, error))
        del self._calls[seq]
        env.forks.end_fork()
        self._end(seq, time.perf_counter_ns() - started_ns)

    def _replies_of(self, source: EventSource) -> ReplySender:
        if not source.wants_replies:
            return self._no_replies
        return ReplySender(self._env.send, self._env.loop, are_wanted=True)

    async def _finish(self, seq: int, call: _CurrentCall, result: Any) -> Iterable[bytes]:
        """Do the rest of the handler's work, and return the frames to be sent before its end."""
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
            results.raise_if_failed(result)
        if self._may_ask_no_ack and results.asks_no_ack(result):
            self._flush()  # those that it follows have ended before it
            return replies.take_unsent(), encode_seq(FrameKind.UNACKED, seq)
        return (replies.take_unsent(),)

    def _end(self, seq: int, handler_ns: int) -> None:
        if not self._ended:
            # At the next turn of the loop: what ends in this one leaves in one write.
            self._env.loop.call_soon(self._flush)
        self._ended.append((seq, handler_ns))

    def _flush(self) -> None:
        """Send what has ended, then free its places: a kill between the two repeats it, no more."""
        if not self._ended:
            return
        self._env.send(b"".join((*self._unsent, encode_done(self._ended))))
        for seq, _ in self._ended:
            self._env.slot.calls.leave(seq)
        self._unsent.clear()
        self._ended.clear()
        self._woken.set()


def _reason(call: _CurrentCall, error: BaseException) -> str:
    """Return why a call has failed. If `error` came of a cancellation, that ends here."""
    if not call.why_cancelled:
        return describe_failure(error)
    return late_reason(error, call.why_cancelled, call.task if call.is_cancelled else None)


def _stepwise(result: Any) -> Any:
    """Return what a generator yields so that the loop turns between items: others run meanwhile."""

    async def each(items: Iterable[Any]) -> AsyncIterator[Any]:
        for item in items:
            yield item
            await asyncio.sleep(0)

    if not isinstance(result, Response):
        return each(result)
    return results.with_body(result, each(result.body))

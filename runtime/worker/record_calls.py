"""Calls of a handler by record: one run after another, and in each one record after another."""

import time
from collections.abc import Coroutine
from types import CoroutineType
from typing import Any

from headrace.runtime.wire.framing import FrameKind
from headrace.runtime.wire.outcomes import encode_progress, encode_seq
from headrace.runtime.worker import results
from headrace.runtime.worker.calls import RETURNED_LATE, CallCancellation, CallEnvironment
from headrace.runtime.worker.inbox import PendingRun
from headrace.runtime.worker.replies import ReplySender
from headrace.runtime.worker.results import HandlerReturnedError

_QUICK_NS = 100_000
"""Times below this aren't told apart: all are in the shortest bucket of the metric of handler seconds."""


class RecordCalls:
    """Calls the handler with one record after another, in the main thread."""

    def __init__(self, environment: CallEnvironment) -> None:
        self._env = environment
        self._call = environment.handler.call
        self._may_ask_no_ack = environment.may_ask_no_ack
        self._replies = ReplySender(environment.acks.flush, environment.loop)
        self._cancellation = CallCancellation(environment.slot, environment.loop)

    def next_work(self) -> Coroutine[Any, Any, None] | None:
        """Return the handling of the next run; None if none waits."""
        run = self._env.inbox.next()
        return self._handle_run(run) if run else None

    def cancel(self, seq: int, why: str) -> None:
        """Cancel the call with record `seq`, if the handler is still in it (link thread)."""
        self._cancellation.cancel(seq, why)

    def on_taken(self, seq: int, byte_count: int) -> None:
        """Note how many bytes of the parts of an answer were taken (link thread)."""
        self._replies.on_taken(seq, byte_count)

    # The loop is one piece: a call for each record would cost as much as a quick handler.
    async def _handle_run(self, run: PendingRun) -> None:  # noqa: C901
        """Handle all records of a run. Awaits nothing for a sync handler: its calls hold the loop."""
        env, call, is_async, records = self._env, self._call, self._env.handler.is_async, run.records
        context, loop, replies, cancellation = env.context, env.loop, self._replies, self._cancellation
        shared, unset = env.variables.shared, env.variables.unset
        view, source = env.lanes.of_run(run.header)
        enter, new_event, wants_replies = env.slot.enter, source.new_event, source.wants_replies
        attempt, seq = run.header.attempt, run.header.first_seq
        replies.are_wanted = wants_replies
        if is_async:
            cancellation.enter_task()
        started_ns = last_ns = time.monotonic_ns()
        slowest_ns, look_ns = 0, started_ns + _QUICK_NS  # records that are slower are seen
        env.acks.enter(view)
        due, waits = ((), False) if is_async else (loop.due, loop.waits)
        while records:
            if due or waits:
                waits = loop.turn()
            try:
                record = records.popleft()
            except IndexError:  # recalled between the test and the step
                break
            offset = record.offset
            # The record was acked while it waited: it is done without a call of its handler.
            if view.has_acked_ahead and view.is_acked(offset, attempt):
                seq += 1
                continue
            view.record = record
            # The slot names the record before its handler is called: if this process dies in it, the
            # processor knows in which record.
            now_ns = enter(seq)
            if now_ns > look_ns:
                slowest_ns, look_ns = max(slowest_ns, now_ns - last_ns), now_ns + _QUICK_NS
            last_ns = now_ns
            try:
                result = call(context, new_event(record, view, attempt))
                if type(result) is CoroutineType:  # what nearly all async handlers give
                    result = await result if is_async else loop.run_until_complete(result)
                if result is not None and results.is_pending(result):
                    rest = replies.finish(seq, result)
                    result = await rest if is_async else loop.run_until_complete(rest)
                if result is not None or wants_replies or cancellation.seq == seq:
                    self._on_result(seq, result, is_last=not records)
            except BaseException as error:  # user code may raise anything, SystemExit too
                self._on_failed(run, seq, error)
            try:
                has_set_variables = shared != unset
            except Exception:  # a value of a kind that can't be compared, such as an array
                has_set_variables = True
            if has_set_variables:  # which no other call may see
                call = self._call = env.variables.apart(call)
                unset = shared
            seq += 1
        self._end_run(run, seq, started_ns, last_ns, slowest_ns)

    def _on_result(self, seq: int, result: Any, *, is_last: bool) -> None:
        """Take the handler's result, and raise if that says that it failed."""
        replies = self._replies
        if self._cancellation.seq == seq:
            raise HandlerReturnedError(RETURNED_LATE)
        if replies.are_wanted:
            result = replies.answer(seq, result, is_last=is_last)
        if result is not None:
            results.raise_if_failed(result)
            if self._may_ask_no_ack and results.asks_no_ack(result):
                self._env.acks.flush(replies.take_unsent() + encode_seq(FrameKind.UNACKED, seq))

    def _on_failed(self, run: PendingRun, seq: int, error: BaseException) -> None:
        env = self._env
        env.forks.end_fork(error)
        # A processor that finds this process dead reads its socket, then the slot: so the failure is sent
        # before the slot moves on.
        env.acks.flush(self._replies.take_unsent())
        env.inbox.fail(run, seq, self._cancellation.reason(error, seq))

    def _end_run(self, run: PendingRun, end_seq: int, started_ns: int, last_ns: int, slowest_ns: int) -> None:
        """Tell the processor that a run is done, and how long it and its slowest record took."""
        env, has_replies = self._env, self._replies.are_wanted
        env.forks.end_fork()
        if not has_replies:
            env.slot.leave(end_seq)
        ended_ns = time.monotonic_ns()
        elapsed_ns, slowest_ns = ended_ns - started_ns, max(slowest_ns, ended_ns - last_ns)
        env.acks.leave()
        progress = encode_progress(end_seq, elapsed_ns, end_seq - run.header.first_seq, slowest_ns)
        env.acks.flush(self._replies.take_unsent() + progress)
        if has_replies:  # only now: whoever finds a record done settles it, and an answer must find it open
            env.slot.leave(end_seq)

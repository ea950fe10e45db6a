"""Requests between the server and the dispatcher: each waits for a worker, then for its answer."""

import asyncio
import contextlib
import logging
import time
from functools import partial
from typing import NamedTuple

from headrace.runtime.deadlines import Deadlines
from headrace.runtime.dispatch.interface import Dispatch
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import CutShort, EventLane
from headrace.runtime.partitions.offsets.failure_text import in_one_line, log_extra
from headrace.runtime.wire.records import SentRecord, WireRecord
from headrace.runtime.wire.reply import NOBODY, Reply
from headrace.triggers.http.responses import AnswerStream

logger = logging.getLogger(__name__)

MOST_WAITING = 1024
"""How many requests may wait for a worker at a time. More are refused at once: nobody would wait so long."""
MOST_WAITING_BYTES = 64 << 20
_KEPT_LANES = 256
_TEXT = "text/plain"


def text_reply(status: int, why: str) -> Reply:
    """Return a reply that no handler has given."""
    return Reply(status, _TEXT, (), why.encode())


BUSY = text_reply(503, "no worker is free\n")
STOPPING = text_reply(503, "the function stops\n")
RAISED = text_reply(500, "the handler failed\n")
LATE = text_reply(408, "the handler took too long\n")
DIED = text_reply(502, "the handler's process died\n")
_CUT_SHORT = {"late": LATE, "died": DIED}


class HttpAnswer(NamedTuple):
    """A reply, with the rest of its body where that comes in parts."""

    reply: Reply
    rest: AnswerStream | None = None


class RequestLane(EventLane):
    """A lane of one request after another, each with a future of its answer."""

    record: SentRecord
    answer: asyncio.Future[HttpAnswer]
    rest: AnswerStream | None
    has_given_up: bool
    """Whether no worker shall begin with the request any more."""

    def __init__(self, key: PartitionKey, requests: "Requests") -> None:
        super().__init__(key)
        self._requests = requests

    def ask(self, record: SentRecord) -> asyncio.Future[HttpAnswer]:
        """Have the next request handed out; return the future of its answer. The previous one has ended."""
        self.record, self.has_given_up, self.rest = record, False, None
        self.answer = asyncio.get_running_loop().create_future()
        self.put(record)
        return self.answer

    def reply(self, reply: Reply) -> None:
        """Answer the request, unless it is answered: the first reply counts."""
        if not self.answer.done():
            self.rest = AnswerStream(partial(self._requests.on_taken, self)) if reply.has_more else None
            self.answer.set_result(HttpAnswer(reply, self.rest))

    def on_replied(self, record: WireRecord, reply: Reply) -> None:
        """Pass on the handler's reply; its worker is told where no client waits for it any more."""
        if reply.has_more and self.answer.cancelled():
            self._requests.on_taken(self, None, NOBODY)
        self.reply(reply)

    def on_reply_part(self, data: bytes, *, is_last: bool) -> None:
        """Pass on the next part of the body."""
        if self.rest is not None:
            self.rest.put(data, is_last=is_last)

    def on_cut_short(self, why: CutShort) -> None:
        """Answer that the handler was late, or its process died, before the worker is gone."""
        self.reply(_CUT_SHORT[why])

    def on_ended(self, failure: str | None) -> None:
        """Answer 500 where the handler failed, and become idle."""
        # A generator that is told that its client has gone may raise: nobody is to be told of that.
        if failure is not None and not (self.rest and self.rest.is_abandoned):
            self._requests.on_failed(self.record, failure)
            self.reply(RAISED)
        self._end_rest()
        self._requests.on_idle(self)

    def on_came_back(self, record: WireRecord) -> None:
        """Have the request handed out again: it hasn't started, or its worker was killed, as by a stop."""
        self._end_rest()
        self._requests.on_came_back(self)

    def _end_rest(self) -> None:
        if self.rest is not None:
            self.rest.end()
            self.rest = None


class Requests:
    """The requests between server and dispatcher: each waits for a worker, then for its answer.

    Owns the lanes, and keeps idle ones for the next requests.
    """

    def __init__(self, name: str, dispatch: Dispatch, metrics: TriggerMetrics, wait_seconds: float) -> None:
        """Requests that no worker takes within `wait_seconds` are refused."""
        self._key = PartitionKey(f"http:{name}", 0)
        self._dispatch = dispatch
        self._metrics = metrics
        self._wait_seconds = wait_seconds
        self._idle: list[RequestLane] = []
        self._open: set[RequestLane] = set()
        self._number = 0
        self._unanswered_count = self._body_bytes = 0
        self._unbegun: Deadlines[RequestLane] = Deadlines(wait_seconds, self._stop_waiting)
        self._is_dispatch_due = False
        self._is_stopping = False
        self._all_ended = asyncio.Event()

    @property
    def open_count(self) -> int:
        """The number of requests that a worker has or is to have."""
        return len(self._open)

    async def ask(self, head: bytes, body: bytes) -> HttpAnswer:
        """Return the answer to a request: the handler's, or a refusal.

        The server cancels this where the client has gone: then no worker begins with the request any more.
        """
        if self._is_stopping:
            return HttpAnswer(self._refused(STOPPING))
        if self._is_full():
            return HttpAnswer(self._refused(BUSY))
        # An idle lane is used again; new ones are made only for as many requests as are open at once.
        self._number += 1
        lane = self._idle.pop() if self._idle else RequestLane(self._key, self)
        self._open.add(lane)
        record = SentRecord(self._number, time.time_ns() // 1_000_000, -1, head, body, b"")
        self._unanswered_count += 1
        self._body_bytes += len(body)
        answer = lane.ask(record)
        self._submit(lane)
        try:
            return await answer
        finally:
            self._unanswered_count -= 1
            self._body_bytes -= len(body)
            # The lane may have ended with this request before the answer is taken, and have the next one.
            if lane.record is record:
                self._unbegun.discard(lane)
                if answer.cancelled():
                    self._stop_waiting(lane)

    async def stop(self, wait_seconds: float) -> None:
        """Refuse what hasn't begun, and what comes; wait for the rest. Idempotent."""
        self._is_stopping = True
        # What waits is refused, and what a worker has may come back if it hasn't begun.
        for lane in tuple(self._open):
            self._stop_waiting(lane)
        if self._open:
            self._all_ended.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await self._all_ended.wait()
        # Handlers that take longer are ended with their workers: their clients get an answer before that.
        for lane in self._open:
            lane.reply(STOPPING)

    # ---- called by the lanes

    def on_failed(self, record: SentRecord, failure: str) -> None:
        """Log why the handler failed; the client isn't told."""
        method, target = (record.key or b"").split(b"\n", 2)[:2]
        request = f"{method.decode()} {target.decode(errors='backslashreplace')}"
        logger.error("%s failed: %s", request, in_one_line(failure), extra=log_extra(failure))

    def on_taken(self, lane: RequestLane, stream: AnswerStream | None, byte_count: int) -> None:
        """Tell the worker how many bytes of the lane's answer the client has taken."""
        if lane.rest is stream:
            self._dispatch.take_reply(lane, byte_count)

    def on_idle(self, lane: RequestLane) -> None:
        """Keep a lane for the next requests: its request has ended, and nothing of it is at a worker."""
        self._open.discard(lane)
        # The lanes of a burst of requests aren't kept for ever.
        if len(self._idle) < _KEPT_LANES:
            self._idle.append(lane)
        else:
            self._dispatch.forget(lane)
        if not self._open:
            self._all_ended.set()

    def on_came_back(self, lane: RequestLane) -> None:
        """Hand an unanswered request out again, but not one whose client has gone or waits no longer."""
        if lane.answer.done() or lane.has_given_up or self._is_stopping:
            self._refuse(lane)
        else:
            lane.put(lane.record)

    # ---- waiting and refusing

    def _submit(self, lane: RequestLane) -> None:
        """Submit the lane. All requests of one turn of the event loop are handed out together."""
        self._unbegun.add(lane)
        self._dispatch.submit(lane)
        if not self._is_dispatch_due:
            # One dispatch for all requests of this turn of the loop: workers get several in one run.
            self._is_dispatch_due = True
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._is_dispatch_due = False
        self._dispatch.dispatch()

    def _stop_waiting(self, lane: RequestLane) -> None:
        """Have the request not wait for a worker any more; where one has begun with it, that goes on."""
        if lane not in self._open:
            return
        lane.has_given_up = True
        if lane.drop():
            self._refuse(lane)
        elif self._wait_seconds:  # 0: a worker was free, and has hardly heard of it
            self._dispatch.recall(lane)

    def _is_full(self) -> bool:
        # As many requests as there are seats at workers don't wait.
        waiting = self._unanswered_count - self._dispatch.seats
        most = MOST_WAITING if self._wait_seconds else 0
        return waiting >= most or self._body_bytes > MOST_WAITING_BYTES

    def _refuse(self, lane: RequestLane) -> None:
        if not lane.answer.done():
            lane.reply(self._refused(STOPPING if self._is_stopping else BUSY))
        self.on_idle(lane)

    def _refused(self, reply: Reply) -> Reply:
        self._metrics.refused.inc()
        self._metrics.on_not_allocated()
        return reply

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
"""Requests that no worker has yet, at a time. More are refused at once: nobody would wait so long."""
MOST_WAITING_BYTES = 64 << 20
_KEPT_LANES = 256
_TEXT = "text/plain"


def refusal(status: int, why: str) -> Reply:
    """An answer that no handler has given."""
    return Reply(status, _TEXT, (), why.encode())


BUSY = refusal(503, "no worker is free\n")
STOPPING = refusal(503, "the function stops\n")
RAISED = refusal(500, "the handler failed\n")
LATE = refusal(408, "the handler took too long\n")
DIED = refusal(502, "the handler's process died\n")
_CUT_SHORT = {"late": LATE, "died": DIED}


class HttpAnswer(NamedTuple):
    """With the rest of the body, where that comes in parts."""

    reply: Reply
    rest: AnswerStream | None = None


class RequestLane(EventLane):
    """One request after another, each with a future of its answer."""

    record: SentRecord
    answer: asyncio.Future[HttpAnswer]
    rest: AnswerStream | None
    has_given_up: bool
    """No worker shall begin with it any more."""

    def __init__(self, key: PartitionKey, requests: "Requests") -> None:
        super().__init__(key)
        self._requests = requests

    def ask(self, record: SentRecord) -> asyncio.Future[HttpAnswer]:
        """It is idle."""
        self.record, self.has_given_up, self.rest = record, False, None
        self.answer = asyncio.get_running_loop().create_future()
        self.put(record)
        return self.answer

    def reply(self, reply: Reply) -> None:
        """The first one counts."""
        if not self.answer.done():
            self.rest = AnswerStream(partial(self._requests.on_taken, self)) if reply.has_more else None
            self.answer.set_result(HttpAnswer(reply, self.rest))

    def on_replied(self, record: WireRecord, reply: Reply) -> None:
        """As Lane says."""
        if reply.has_more and self.answer.cancelled():
            self._requests.on_taken(self, None, NOBODY)
        self.reply(reply)

    def on_reply_part(self, data: bytes, *, is_last: bool) -> None:
        """As Lane says."""
        if self.rest is not None:
            self.rest.put(data, is_last=is_last)

    def on_cut_short(self, why: CutShort) -> None:
        """As Lane says. Whoever asked need not wait until the worker is gone."""
        self.reply(_CUT_SHORT[why])

    def on_ended(self, failure: str | None) -> None:
        """As EventLane says."""
        if failure is not None and not (self.rest and self.rest.has_left):
            self._requests.on_failed(self.record, failure)
            self.reply(RAISED)
        self._end_rest()
        self._requests.on_idle(self)

    def on_came_back(self, record: WireRecord) -> None:
        """As EventLane says. It hasn't started, or its worker was killed, by a stop for instance."""
        self._end_rest()
        self._requests.on_came_back(self)

    def _end_rest(self) -> None:
        if self.rest is not None:
            self.rest.end()
            self.rest = None


class Requests:
    """Owns the lanes. A request is waiting until a worker has begun with it, and answered once."""

    def __init__(self, name: str, dispatch: Dispatch, metrics: TriggerMetrics, wait_seconds: float) -> None:
        """One that no worker takes within `wait_seconds` is refused."""
        self._key = PartitionKey(f"http:{name}", 0)
        self._dispatch = dispatch
        self._metrics = metrics
        self._wait_seconds = wait_seconds
        self._idle: list[RequestLane] = []
        self._open: set[RequestLane] = set()
        self._number = 0
        self._unanswered = self._bytes = 0
        self._unbegun: Deadlines[RequestLane] = Deadlines(wait_seconds, self._give_up)
        self._is_dispatch_due = False
        self._is_stopping = False
        self._all_ended = asyncio.Event()

    @property
    def open_count(self) -> int:
        """Requests that a worker has or is to have."""
        return len(self._open)

    async def ask(self, head: bytes, body: bytes) -> HttpAnswer:
        """The answer to a request that has come now.

        Cancelled where nobody waits for it any more: then it isn't begun with, if that hasn't happened yet.
        """
        if self._is_stopping:
            return HttpAnswer(self._refused(STOPPING))
        if self._is_full():
            return HttpAnswer(self._refused(BUSY))
        self._number += 1
        lane = self._idle.pop() if self._idle else RequestLane(self._key, self)
        self._open.add(lane)
        record = SentRecord(self._number, time.time_ns() // 1_000_000, -1, head, body, b"")
        self._unanswered += 1
        self._bytes += len(body)
        answer = lane.ask(record)
        self._submit(lane)
        try:
            return await answer
        finally:
            self._unanswered -= 1
            self._bytes -= len(body)
            if lane.record is record:
                self._unbegun.discard(lane)
                if answer.cancelled():
                    self._give_up(lane)

    async def stop(self, wait_seconds: float) -> None:
        """Refuse what hasn't begun, and what comes; wait for the rest. Idempotent."""
        self._is_stopping = True
        for lane in tuple(self._open):
            self._give_up(lane)
        if self._open:
            self._all_ended.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await self._all_ended.wait()
        for lane in self._open:
            lane.reply(STOPPING)

    # ---- for its lanes

    def on_failed(self, record: SentRecord, failure: str) -> None:
        """For the log; who asked learns nothing of it."""
        method, target = (record.key or b"").split(b"\n", 2)[:2]
        asked = f"{method.decode()} {target.decode(errors='backslashreplace')}"
        logger.error("%s failed: %s", asked, in_one_line(failure), extra=log_extra(failure))

    def on_taken(self, lane: RequestLane, stream: AnswerStream | None, byte_count: int) -> None:
        """So much of what the lane's handler sends has gone to the client."""
        if lane.rest is stream:
            self._dispatch.take_reply(lane, byte_count)

    def on_idle(self, lane: RequestLane) -> None:
        """Nothing of it is at a worker."""
        self._open.discard(lane)
        if len(self._idle) < _KEPT_LANES:
            self._idle.append(lane)
        else:
            self._dispatch.forget(lane)
        if not self._open:
            self._all_ended.set()

    def on_came_back(self, lane: RequestLane) -> None:
        """Unanswered, it is handed out again, but not for whom has gone or waits no longer."""
        if lane.answer.done() or lane.has_given_up or self._is_stopping:
            self._refuse(lane)
        else:
            lane.put(lane.record)

    # ---- inside

    def _submit(self, lane: RequestLane) -> None:
        """All requests of one turn of the event loop go out together."""
        self._unbegun.add(lane)
        self._dispatch.submit(lane)
        if not self._is_dispatch_due:
            self._is_dispatch_due = True
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._is_dispatch_due = False
        self._dispatch.dispatch()

    def _give_up(self, lane: RequestLane) -> None:
        """Nobody waits for a worker to take it any more; one that has begun goes on."""
        if lane not in self._open:
            return
        lane.has_given_up = True
        if lane.drop():
            self._refuse(lane)
        elif self._wait_seconds:  # 0: a worker was free, and has hardly heard of it
            self._dispatch.recall(lane)

    def _is_full(self) -> bool:
        waiting = self._unanswered - self._dispatch.seats
        most = MOST_WAITING if self._wait_seconds else 0
        return waiting >= most or self._bytes > MOST_WAITING_BYTES

    def _refuse(self, lane: RequestLane) -> None:
        if not lane.answer.done():
            lane.reply(self._refused(STOPPING if self._is_stopping else BUSY))
        self.on_idle(lane)

    def _refused(self, reply: Reply) -> Reply:
        self._metrics.refused.inc()
        self._metrics.on_not_allocated()
        return reply

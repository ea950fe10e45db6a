"""Firings between the timetable and the dispatcher: each runs, is tried again, or is skipped."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from headrace.runtime.config.delivery_policy import FailurePolicy
from headrace.runtime.dispatch.interface import Dispatch
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import EventLane
from headrace.runtime.partitions.offsets.failure_text import in_one_line, is_alike, log_extra
from headrace.runtime.wire.records import SentRecord, WireRecord
from headrace.triggers.cron.event import id_of, record_of, said

logger = logging.getLogger(__name__)

REPORT_SECONDS = 60.0
"""Firings that are skipped are a log line at most so often."""


class FiringLane(EventLane):
    """One firing after another, each with its attempts. `record` is the one that it has, None while idle."""

    def __init__(self, key: PartitionKey, firings: "Firings") -> None:
        super().__init__(key)
        self._firings = firings
        self.record: SentRecord | None = None
        self.retry: asyncio.TimerHandle | None = None

    def on_ended(self, failure: str | None) -> None:
        """As EventLane says."""
        self._firings.on_ended(self, failure)

    def on_came_back(self, record: WireRecord) -> None:
        """As EventLane says. It hasn't started, or its worker was killed by a stop."""
        self._firings.on_came_back(self, record)


class Firings:
    """Owns the lanes: as many as may run at a time."""

    def __init__(  # noqa: PLR0913, PLR0917  # what a firing is made of
        self,
        name: str,
        dispatch: Dispatch,
        metrics: TriggerMetrics,
        policy: FailurePolicy,
        event: tuple[bytes, bytes],
        most: int,
    ) -> None:
        """`event` is head and body of all that fire. `name` is the trigger's."""
        self._name = name
        self._dispatch = dispatch
        self._metrics = metrics
        self._policy = policy
        self._event = event
        self._lanes = [FiringLane(PartitionKey(f"cron:{name}", n), self) for n in range(most)]
        self._skips = ReportThrottle()
        self._failure = ""
        self._is_stopping = False
        self._all_ended = asyncio.Event()
        self.fired_count = 0
        self.skipped_count = 0

    def fire(self, moment: float, now: float) -> None:
        """Have it handled, where a lane is idle. `now` is of a clock that doesn't go back, in seconds."""
        if self._is_stopping:
            return
        lane = next((lane for lane in self._lanes if lane.record is None), None)
        if lane is None:
            self._skip(moment, now)
            return
        self.fired_count += 1
        lane.record, lane.attempts = record_of(self.fired_count, moment, *self._event), 1
        self._submit(lane)

    async def stop(self, wait_seconds: float) -> None:
        """Begin with nothing more; wait for what runs. Idempotent."""
        self._is_stopping = True
        for lane in self._busy():
            if lane.retry is not None or lane.drop():
                self._give_up(lane)
            else:
                self._dispatch.recall(lane)
        if self._busy():
            self._all_ended.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await self._all_ended.wait()

    # ---- for its lanes

    def on_ended(self, lane: FiringLane, failure: str | None) -> None:
        """Its handler has: with success, or why not."""
        if failure is None:
            self._failure = ""
            self._free(lane)
        elif self._policy.is_spent(lane.attempts) or self._is_stopping:
            self._log_failure(lane, "and isn't tried again", failure)
            self._free(lane)
        else:
            wait_seconds = self._policy.wait_seconds(lane.attempts)
            self._log_failure(lane, f"to be tried again in {wait_seconds:.1f} s", failure)
            lane.retry = asyncio.get_running_loop().call_later(wait_seconds, self._try_again, lane)

    def on_came_back(self, lane: FiringLane, record: WireRecord) -> None:
        """Without an outcome: it is handed out again, as the same attempt."""
        if self._is_stopping:
            self._give_up(lane)
        else:
            lane.put(record)

    # ---- inside

    def _busy(self) -> Sequence[FiringLane]:
        return [lane for lane in self._lanes if lane.record is not None]

    def _submit(self, lane: FiringLane) -> None:
        assert lane.record is not None, "it has a firing"
        lane.put(lane.record)
        self._dispatch.submit(lane)
        self._dispatch.dispatch()

    def _try_again(self, lane: FiringLane) -> None:
        lane.retry = None
        lane.attempts += 1
        self._submit(lane)

    def _give_up(self, lane: FiringLane) -> None:
        if lane.retry is not None:
            lane.retry.cancel()
        logger.warning("%s isn't run any more: the function stops", self._id(lane))
        self._free(lane)

    def _free(self, lane: FiringLane) -> None:
        lane.record = lane.retry = None
        if not self._busy():
            self._all_ended.set()

    def _skip(self, moment: float, now: float) -> None:
        self.skipped_count += 1
        self._metrics.firings_skipped.inc()
        if count := self._skips.add(now):
            message = "%s: %d firing%s skipped, %s the last one: %d of %d still run or are tried again"
            plural = " was" if count == 1 else "s were"
            most = len(self._lanes)
            logger.warning(message, self._name, count, plural, said(moment), most, most)

    def _log_failure(self, lane: FiringLane, follows: str, failure: str) -> None:
        """All of the reason once; its line, while only that changes."""
        line = in_one_line(failure)
        is_known, self._failure = is_alike(failure, self._failure), failure
        extra = log_extra(failure, is_known=is_known, attempt=lane.attempts)
        logger.error(
            "%s failed at attempt %d, %s: %s", self._id(lane), lane.attempts, follows, line, extra=extra
        )

    def _id(self, lane: FiringLane) -> str:
        assert lane.record is not None, "it has a firing"
        return id_of(self._name, lane.record.timestamp)


class ReportThrottle:
    """Counts what is to be said once in a while."""

    def __init__(self) -> None:
        self._count = 0
        self._said_at: float | None = None

    def add(self, now: float) -> int:
        """How many there were since it was said last, where it is to be said now; else 0."""
        self._count += 1
        if self._said_at is not None and now - self._said_at < REPORT_SECONDS:
            return 0
        count, self._count, self._said_at = self._count, 0, now
        return count

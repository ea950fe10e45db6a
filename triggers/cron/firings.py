"""Firings on their way from the timetable to the dispatcher: each runs, is tried again, or is skipped."""

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
from headrace.triggers.cron.event import id_of, iso_time, record_of

logger = logging.getLogger(__name__)

REPORT_SECONDS = 60.0
"""How long at least from one log line about skipped firings to the next."""


class FiringLane(EventLane):
    """A lane of one firing after another, each with its attempts. `record` is None while it is idle."""

    def __init__(self, key: PartitionKey, firings: "Firings") -> None:
        super().__init__(key)
        self._firings = firings
        self.record: SentRecord | None = None
        self.retry: asyncio.TimerHandle | None = None

    def on_ended(self, failure: str | None) -> None:
        """Pass on the outcome of the handler: None, or why it failed."""
        self._firings.on_ended(self, failure)

    def on_came_back(self, record: WireRecord) -> None:
        """Pass on a firing without an outcome: it hasn't started, or its worker was killed by a stop."""
        self._firings.on_came_back(self, record)


class Firings:
    """The firings of one trigger. Owns the lanes: as many as may run at a time."""

    def __init__(  # noqa: PLR0913, PLR0917  # what a firing is made of
        self,
        name: str,
        dispatch: Dispatch,
        metrics: TriggerMetrics,
        policy: FailurePolicy,
        event: tuple[bytes, bytes],
        max_running: int,
    ) -> None:
        """`event` is key and value of each firing's record. `name` is the trigger's."""
        self._name = name
        self._dispatch = dispatch
        self._metrics = metrics
        self._policy = policy
        self._event = event
        self._lanes = [FiringLane(PartitionKey(f"cron:{name}", n), self) for n in range(max_running)]
        self._skips = ReportThrottle()
        self._failure = ""
        self._is_stopping = False
        self._all_ended = asyncio.Event()
        self.fired_count = 0
        self.skipped_count = 0

    def fire(self, moment: float, now: float) -> None:
        """Hand out a firing, or skip it where no lane is idle.

        `moment` is in seconds since 1970, `now` in seconds of a clock that never goes back.
        """
        if self._is_stopping:
            return
        # A lane has its firing until the last attempt at it has ended: one that waits for a retry isn't idle.
        lane = next((lane for lane in self._lanes if lane.record is None), None)
        if lane is None:
            self._skip(moment, now)
            return
        self.fired_count += 1
        lane.record, lane.attempts = record_of(self.fired_count, moment, *self._event), 1
        self._submit(lane)

    async def stop(self, wait_seconds: float) -> None:
        """Drop what hasn't begun or waits for another attempt; wait for what runs. Idempotent."""
        self._is_stopping = True
        # What no worker has is dropped here; what one has comes back if it hasn't started.
        for lane in self._busy_lanes():
            if lane.retry is not None or lane.drop():
                self._drop_firing(lane)
            else:
                self._dispatch.recall(lane)
        if self._busy_lanes():
            self._all_ended.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await self._all_ended.wait()

    # ---- called by the lanes

    def on_ended(self, lane: FiringLane, failure: str | None) -> None:
        """Free the lane, or try its firing again where it failed and has attempts left."""
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
        """Hand a firing without an outcome out again, as the same attempt."""
        if self._is_stopping:
            self._drop_firing(lane)
        else:
            lane.put(record)

    # ---- attempts, skips and log lines

    def _busy_lanes(self) -> Sequence[FiringLane]:
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

    def _drop_firing(self, lane: FiringLane) -> None:
        if lane.retry is not None:
            lane.retry.cancel()
        logger.warning("%s isn't run any more: the function stops", self._id(lane))
        self._free(lane)

    def _free(self, lane: FiringLane) -> None:
        lane.record = lane.retry = None
        if not self._busy_lanes():
            self._all_ended.set()

    def _skip(self, moment: float, now: float) -> None:
        self.skipped_count += 1
        self._metrics.firings_skipped.inc()
        if count := self._skips.add(now):
            message = "%s: %d firing%s skipped, %s the last one: %d of %d still run or are tried again"
            plural = " was" if count == 1 else "s were"
            max_running = len(self._lanes)
            logger.warning(message, self._name, count, plural, iso_time(moment), max_running, max_running)

    def _log_failure(self, lane: FiringLane, follows: str, failure: str) -> None:
        """Log why an attempt failed: with its traceback the first time, in a line while it stays alike."""
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
    """Limits log lines about something that recurs to one in REPORT_SECONDS, and counts what is left out."""

    def __init__(self) -> None:
        self._count = 0
        self._said_at: float | None = None

    def add(self, now: float) -> int:
        """Count one more; return how many there were since the last report, or 0 where none is due."""
        self._count += 1
        if self._said_at is not None and now - self._said_at < REPORT_SECONDS:
            return 0
        count, self._count, self._said_at = self._count, 0, now
        return count

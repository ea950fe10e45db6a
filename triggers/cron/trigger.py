"""The cron trigger: what is due by a timetable becomes firings."""

import asyncio
import logging
import math
import time
from dataclasses import replace
from typing import Protocol

from headrace.runtime.config.delivery_policy import AckMode, DeliveryPolicy, FailurePolicy
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.tasks import end_tasks
from headrace.triggers.base import Dispatch, EmbeddedNeeds, Trigger, TriggerStatus
from headrace.triggers.cron.event import body_of, head_of, iso_time
from headrace.triggers.cron.firings import Firings, ReportThrottle
from headrace.triggers.cron.schedule import Schedule, zone_of
from headrace.triggers.cron.settings import CronSettings
from headrace.triggers.cron.timetable import (
    ClockReading,
    Due,
    IntervalTimetable,
    Timetable,
    WallClockTimetable,
)


class Clock(Protocol):
    """The machine's clocks. Tests have one that they turn."""

    def wall(self) -> float:
        """Return the seconds since 1970 by a clock that may be set, both ways."""

    def monotonic(self) -> float:
        """Return seconds that never go back, those that the machine sleeps included."""

    async def sleep(self, seconds: float) -> None:
        """Sleep for so long; longer where the machine sleeps meanwhile."""


class MachineClock:
    """The clocks of this machine."""

    def wall(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Return the seconds since the machine was started, its sleeps included."""
        # CLOCK_MONOTONIC stands still while the machine sleeps, and intervals would grow by that.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Sleep on the event loop."""
        await asyncio.sleep(seconds)


def read_clock(clock: Clock) -> ClockReading:
    """Return the readings of both clocks."""
    return ClockReading(clock.wall(), clock.monotonic())


logger = logging.getLogger(__name__)

LONGEST_SLEEP_SECONDS = 1.0
"""How often clocks are read at least: somebody may have set them."""
_EVENT = "headrace.triggers.cron.event:CronEvent"
_ONCE = FailurePolicy(max_attempts=1, then="report")  # firings have attempts of their own


class CronTrigger(Trigger):
    """A timetable, and the firings that come of it. Of several replicas the first one fires."""

    @staticmethod
    def delivery(settings: CronSettings, fields: TriggerFields) -> DeliveryPolicy:  # noqa: ARG004  # as all kinds'
        """Return the policy by which nothing is acked, and the lane is told of failures."""
        return replace(fields.delivery, ack_mode=AckMode.DISABLE, failure=_ONCE, event=_EVENT)

    @staticmethod
    def embedded(settings: CronSettings) -> EmbeddedNeeds:  # noqa: ARG004  # as all kinds'
        """Return the need for no service."""
        return EmbeddedNeeds()

    def __init__(  # as all kinds', and a clock
        self,
        spec: TriggerSpec,
        dispatch: Dispatch,
        metrics: TriggerMetrics,
        client_id: str,  # as all kinds'
        clock: Clock | None = None,
    ) -> None:
        settings: CronSettings = spec.settings
        self._name, self._settings = spec.name, settings
        self._clock = clock or MachineClock()
        event_settings = settings.event
        event = (
            head_of(event_settings.headers, event_settings.path, event_settings.method),
            body_of(event_settings.body),
        )
        max_running = spec.num_workers if settings.concurrency_policy == "Allow" else 1
        policy = settings.on_failure.policy
        self._firings = Firings(spec.name, dispatch, metrics, policy, event, max_running)
        # Only replicas of one machine know of each other: None is a run by itself, as a pod's is.
        self._is_idle = spec.replica_index not in {None, 0}
        self._misses = ReportThrottle()
        self._timetable: Timetable | None = None
        self._is_running = False
        self._is_stopping = asyncio.Event()

    async def run(self) -> None:
        """Fire what is due until `stop`."""
        self._is_running = True
        stopping = asyncio.create_task(self._is_stopping.wait())
        firing = asyncio.create_task(self._fire_forever())
        try:
            await asyncio.wait([stopping, firing], return_when=asyncio.FIRST_COMPLETED)
            if firing.done():
                # Before a stop it ends only by a fault, which is raised here.
                firing.result()
        finally:
            await end_tasks([stopping, firing])

    async def stop(self, wait_seconds: float) -> None:
        """Fire no more, and finish what runs."""
        self._is_stopping.set()
        await self._firings.stop(wait_seconds)

    def problems(self) -> list[str]:
        """Return that it doesn't fire yet; nothing once it does."""
        return [] if self._is_running else ["not firing yet"]

    def status(self) -> TriggerStatus:
        """Return the next moment, in ISO 8601, UTC, and counts of firings. `idle`: another replica fires."""
        has_next = self._timetable is not None and not self._is_stopping.is_set()
        next_moment = (
            self._timetable.next(read_clock(self._clock)) if self._timetable and has_next else math.inf
        )
        upcoming = iso_time(next_moment) if math.isfinite(next_moment) else None
        firings = self._firings
        return TriggerStatus(
            {
                "next": upcoming,
                "fired": firings.fired_count,
                "skipped": firings.skipped_count,
                "idle": self._is_idle,
            }
        )

    async def _fire_forever(self) -> None:
        if self._is_idle:
            logger.info("%s: another replica fires", self._name)
            await self._is_stopping.wait()
        timetable = self._timetable = self._new_timetable()
        while not self._is_stopping.is_set():
            # Clocks are read again after the sleep, and nothing is concluded from how long that was.
            now = read_clock(self._clock)
            if due := timetable.due(now):
                self._on_due(due, now.monotonic)
            # The clocks anew: handing out what was due has taken time.
            wait_seconds = timetable.wait_seconds(read_clock(self._clock))
            await self._clock.sleep(min(wait_seconds, LONGEST_SLEEP_SECONDS))

    def _new_timetable(self) -> Timetable:
        settings, now = self._settings, read_clock(self._clock)
        # The start of an interval is now, so that each restart of the function counts anew.
        if settings.interval_seconds:
            return IntervalTimetable(settings.interval_seconds, now)
        return WallClockTimetable(Schedule(settings.schedule, zone_of(settings.time_zone)), now)

    def _on_due(self, due: Due, now: float) -> None:
        # Of several that were missed the last one fires, late, where catchUp says so.
        is_fired = not due.is_late or self._settings.catch_up == "once"
        if (due.is_late or due.first != due.moment) and (count := self._misses.add(now)):
            times = "" if count == 1 else f" ({count} times since this was said last)"
            follows = "one follows at once" if is_fired else "the next one will be on time"
            message = "%s: firings from %s to %s were missed%s; %s"
            logger.warning(message, self._name, iso_time(due.first), iso_time(due.moment), times, follows)
        if is_fired:
            self._firings.fire(due.moment, now)

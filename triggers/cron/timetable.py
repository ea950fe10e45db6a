"""Timetables: which firings of a schedule or an interval are due, by clocks that may be set.

Pure: the caller reads the clocks.
"""

from dataclasses import dataclass
from typing import Protocol

from headrace.triggers.cron.schedule import Schedule

SMALL_STEP_SECONDS = 60.0
"""How far the wall clock may be set back without a firing coming again."""
ON_TIME_SECONDS = 1.0
"""How late a firing may be noticed; a later one was missed."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The readings of both clocks at one moment. `monotonic` counts from anywhere, and is never set."""

    wall: float
    monotonic: float


@dataclass(frozen=True, slots=True)
class Due:
    """A firing whose moment has come. Where several came at once, it stands for the last of them.

    `moment` is by the wall clock; of those before that were missed, `first` was the first.
    """

    moment: float
    first: float
    is_late: bool


class Timetable(Protocol):
    """The firings to come. It reads no clock, and remembers which firings have been due."""

    def due(self, now: ClockReading) -> Due | None:
        """Return the firing that has become due since the last call; None where none has."""

    def wait_seconds(self, now: ClockReading) -> float:
        """Return the seconds until the next firing, if nobody sets a clock."""

    def next(self, now: ClockReading) -> float:
        """Return the moment of the next firing by the wall clock; inf for never."""


class WallClockTimetable:
    """The timetable of a schedule, by a wall clock that may be set."""

    def __init__(self, schedule: Schedule, now: ClockReading) -> None:
        self._schedule = schedule
        self._begin(now.wall)

    def _begin(self, wall: float) -> None:
        self._seen, self._next = wall, self._schedule.after(wall)

    def due(self, now: ClockReading) -> Due | None:
        """Return the last firing between the latest time ever seen and now; a large step back begins anew."""
        # A small step back must not have a moment fire twice, so the latest time seen counts; it isn't moved
        # back then, or many small steps would add up and nothing would fire for as long.
        wall = now.wall
        if wall < self._seen - SMALL_STEP_SECONDS:
            self._begin(wall)
        self._seen = max(self._seen, wall)
        if wall < self._next:
            return None
        first = self._next
        last, self._next = self._schedule.last(first, wall), self._schedule.after(wall)
        return Due(last, first, is_late=wall - last > ON_TIME_SECONDS)

    def wait_seconds(self, now: ClockReading) -> float:
        """Return the seconds until the next moment of the schedule."""
        return max(0.0, self._next - now.wall)

    def next(self, now: ClockReading) -> float:  # as Timetable's
        """Return the next moment of the schedule."""
        return self._next


class IntervalTimetable:
    """The timetable of an interval: firing n is n intervals after the start, whatever the wall clock does."""

    def __init__(self, interval_seconds: float, now: ClockReading) -> None:
        self._interval = round(interval_seconds * 1e6)
        self._start = now.monotonic
        self._number = 0

    def due(self, now: ClockReading) -> Due | None:
        """Return the last multiple of the interval that has passed since the last call."""
        first, self._number = self._number + 1, max(self._number, self._passed(now) // self._interval)
        if self._number < first:
            return None
        late = self._late_seconds(self._number, now)
        return Due(now.wall - late, now.wall - self._late_seconds(first, now), late > ON_TIME_SECONDS)

    def wait_seconds(self, now: ClockReading) -> float:
        """Return the seconds until the next multiple of the interval."""
        return max(0.0, -self._late_seconds(self._number + 1, now))

    def next(self, now: ClockReading) -> float:
        """Return when the next multiple comes, by the wall clock."""
        return now.wall + self.wait_seconds(now)

    def _passed(self, now: ClockReading) -> int:
        """Return the microseconds since the start: sums of float seconds would miss their own multiples."""
        return round((now.monotonic - self._start) * 1e6)

    def _late_seconds(self, number: int, now: ClockReading) -> float:
        return (self._passed(now) - number * self._interval) / 1e6

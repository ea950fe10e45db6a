"""What is due of a schedule or an interval, by clocks that may be set. Pure: who asks says what they say."""

from dataclasses import dataclass
from typing import Protocol

from headrace.triggers.cron.schedule import Schedule

SMALL_STEP_SECONDS = 60.0
"""The wall clock may be set back so far, and nothing that has been comes again."""
ON_TIME_SECONDS = 1.0
"""A firing that is noticed later than that was missed."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """What the clocks say at one moment. `monotonic` counts from anywhere, and knows no steps."""

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
    """Asks nothing, remembers what has been."""

    def due(self, now: ClockReading) -> Due | None:
        """What has come since this was asked last, once."""

    def wait_seconds(self, now: ClockReading) -> float:
        """Until the next one, if nobody sets a clock."""

    def next(self, now: ClockReading) -> float:
        """When that is; inf for never."""


class WallClockTimetable:
    """A schedule, by a wall clock that may be set. Keeps Timetable."""

    def __init__(self, schedule: Schedule, now: ClockReading) -> None:
        self._schedule = schedule
        self._begin(now.wall)

    def _begin(self, wall: float) -> None:
        self._seen, self._next = wall, self._schedule.after(wall)

    def due(self, now: ClockReading) -> Due | None:
        """What lies between the latest time that was ever seen and now."""
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
        """As Timetable says."""
        return max(0.0, self._next - now.wall)

    def next(self, now: ClockReading) -> float:  # as Timetable's
        """As Timetable says."""
        return self._next


class IntervalTimetable:
    """The n-th firing is n intervals after the start, whatever the wall clock does. Keeps Timetable."""

    def __init__(self, interval_seconds: float, now: ClockReading) -> None:
        self._interval = round(interval_seconds * 1e6)
        self._start = now.monotonic
        self._number = 0

    def due(self, now: ClockReading) -> Due | None:
        """All multiples that have passed."""
        first, self._number = self._number + 1, max(self._number, self._passed(now) // self._interval)
        if self._number < first:
            return None
        late = self._late_seconds(self._number, now)
        return Due(now.wall - late, now.wall - self._late_seconds(first, now), late > ON_TIME_SECONDS)

    def wait_seconds(self, now: ClockReading) -> float:
        """As Timetable says."""
        return max(0.0, -self._late_seconds(self._number + 1, now))

    def next(self, now: ClockReading) -> float:
        """As Timetable says."""
        return now.wall + self.wait_seconds(now)

    def _passed(self, now: ClockReading) -> int:
        """Microseconds: sums of floats would miss their own multiples."""
        return round((now.monotonic - self._start) * 1e6)

    def _late_seconds(self, number: int, now: ClockReading) -> float:
        return (self._passed(now) - number * self._interval) / 1e6

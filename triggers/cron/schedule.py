"""When a cron trigger fires. Pure: whoever asks says what the clocks say. Moments are seconds since 1970."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
SMALL_STEP_SECONDS = 60.0
"""The wall clock may be set back so far, and nothing that has been comes again."""
ON_TIME_SECONDS = 1.0
"""A firing that is noticed later than that was missed."""
_LONGEST = 200
_DAYS = (-3, -1)  # of the fields, from the end
_OF_LATE = datetime(2026, 1, 1, tzinfo=UTC).timestamp()  # what came before summer time did says nothing


class ScheduleError(ValueError):
    """What is wrong with a schedule or a zone, in words that follow its text."""


def zone_of(name: str) -> tzinfo:
    """A time zone by its IANA name. Raises ScheduleError."""
    if name == "UTC":
        return UTC  # needs no database
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # OSError: a folder of the database, or too long a name
        raise ScheduleError("is no time zone known here; expected a name such as Europe/Berlin") from None


@dataclass(frozen=True, slots=True)
class Now:
    """What the clocks say at one moment. `monotonic` counts from anywhere, and knows no steps."""

    wall: float
    monotonic: float


class Schedule:
    """The moments of a cron expression in a time zone: whole seconds."""

    def __init__(self, text: str, zone: tzinfo = UTC) -> None:
        """5 fields, minutes first; 6 fields, seconds first; or one of NAMES. Raises ScheduleError."""
        fields = NAMES.get(text.strip().lower(), text).split()
        for at in _DAYS if len(fields) in {5, 6} else ():
            fields[at] = "*" if fields[at] == "?" else fields[at]  # as Nuclio's parser has it
        self._expression, self._zone = " ".join(fields), zone
        if len(text) > _LONGEST:
            raise ScheduleError(f"is no schedule: it is longer than {_LONGEST} characters")
        try:
            comes = self.after(_OF_LATE)
        except (CronSimError, ValueError) as error:
            raise ScheduleError(
                f"is no schedule: {str(error).lower()}; expected minute hour day month weekday, or those with"
                " second first"
            ) from None
        if math.isinf(comes):
            raise ScheduleError("is no schedule: no day is like that, or its hour is always left out there")

    def after(self, moment: float) -> float:
        """The first one that comes later; inf where none does within 50 years."""
        begin = datetime.fromtimestamp(math.floor(moment), self._zone)
        moments = CronSim(self._expression, begin)
        # Where clocks are put back, a schedule that fires in the first of two equal hours looks back to it.
        return next((found for it in moments if (found := it.timestamp()) > moment), math.inf)

    def last(self, first: float, until: float) -> float:
        """The last one up to `until`, which may be years after `first`, which is one."""
        until = math.floor(until)
        while first < until:  # `first` is one, and none comes after `until`
            middle = math.ceil((first + until) / 2)
            if (found := self.after(middle - 1)) <= until:
                first = found
            else:
                until = middle - 1
        return first


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

    def due(self, now: Now) -> Due | None:
        """What has come since this was asked last, once."""

    def wait_seconds(self, now: Now) -> float:
        """Until the next one, if nobody sets a clock."""

    def next(self, now: Now) -> float:
        """When that is; inf for never."""


class ByWall:
    """A schedule, by a wall clock that may be set. Keeps Timetable."""

    def __init__(self, schedule: Schedule, now: Now) -> None:
        self._schedule = schedule
        self._begin(now.wall)

    def _begin(self, wall: float) -> None:
        self._seen, self._next = wall, self._schedule.after(wall)

    def due(self, now: Now) -> Due | None:
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

    def wait_seconds(self, now: Now) -> float:
        """As Timetable says."""
        return max(0.0, self._next - now.wall)

    def next(self, now: Now) -> float:  # as Timetable's
        """As Timetable says."""
        return self._next


class ByInterval:
    """The n-th firing is n intervals after the start, whatever the wall clock does. Keeps Timetable."""

    def __init__(self, interval_seconds: float, now: Now) -> None:
        self._interval = round(interval_seconds * 1e6)
        self._start = now.monotonic
        self._number = 0

    def due(self, now: Now) -> Due | None:
        """All multiples that have passed."""
        first, self._number = self._number + 1, max(self._number, self._passed(now) // self._interval)
        if self._number < first:
            return None
        late = self._late_seconds(self._number, now)
        return Due(now.wall - late, now.wall - self._late_seconds(first, now), late > ON_TIME_SECONDS)

    def wait_seconds(self, now: Now) -> float:
        """As Timetable says."""
        return max(0.0, -self._late_seconds(self._number + 1, now))

    def next(self, now: Now) -> float:
        """As Timetable says."""
        return now.wall + self.wait_seconds(now)

    def _passed(self, now: Now) -> int:
        """Microseconds: sums of floats would miss their own multiples."""
        return round((now.monotonic - self._start) * 1e6)

    def _late_seconds(self, number: int, now: Now) -> float:
        return (self._passed(now) - number * self._interval) / 1e6

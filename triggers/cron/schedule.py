"""The moments of a schedule in a time zone, in seconds since 1970. Pure."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from headrace.triggers.cron.expression import CronFields, ScheduleError, parse_schedule

FROM_NOW_ON = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
"""The start of searches for moments: what zones did before says nothing about the future."""
_LONGEST_WAIT_SECONDS = 50 * 366 * 86400
_QUARTER = 15 * 60  # seconds; clocks change at such moments alone: on the Chatham Islands at 2:45


def zone_of(name: str) -> tzinfo:
    """A time zone by its IANA name. Raises ScheduleError."""
    if name == "UTC":
        return UTC  # needs no database
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # OSError: a folder of the database, or too long a name
        raise ScheduleError("is no time zone known here; expected a name such as Europe/Berlin") from None


class Schedule:
    """The moments of a cron expression in a time zone: whole seconds."""

    def __init__(self, text: str, zone: tzinfo = UTC) -> None:
        """Parse `text`: 5 fields, minutes first; 6 fields, seconds first; or a name. Raises ScheduleError."""
        self.fields, self.zone = parse_schedule(text), zone
        if math.isinf(self.after(FROM_NOW_ON)):
            raise ScheduleError("is no schedule: no day is like that, or its hour is always left out there")

    def after(self, moment: float) -> float:
        """Return the first moment of the schedule after `moment`; inf where none comes within 50 years."""
        moment = math.floor(moment)
        if not self.fields.is_fixed:
            return first_shown(self.fields, moment + 1, self.zone)
        face = datetime.fromtimestamp(moment, self.zone).replace(tzinfo=UTC).timestamp()
        found = -math.inf
        while found <= moment:  # in the second of two equal hours, the faces to come have been
            face = first_shown(self.fields, face + 1, UTC)
            found = self._moment_of(face)
        return found

    def last(self, first: float, until: float) -> float:
        """Return the last moment up to `until`, which may be years after `first`, one of the schedule's."""
        # Found by halving: a schedule of every second may have millions in between.
        until = math.floor(until)
        while first < until:  # `first` is one, and none comes after `until`
            middle = math.ceil((first + until) / 2)
            if (found := self.after(middle - 1)) <= until:
                first = found
            else:
                until = middle - 1
        return first

    def _moment_of(self, face: float) -> float:
        """Return when the clock first shows `face`, or the next time that it shows at all.

        `face` is what the clock shows, in seconds as if it was UTC's.
        """
        while math.isfinite(face):
            shown = datetime.fromtimestamp(face, UTC).replace(tzinfo=self.zone)
            # In what clocks leap over, fold=0 is the later moment (PEP 495): the clock never shows that.
            if shown.timestamp() <= shown.replace(fold=1).timestamp():
                return shown.timestamp()
            face += 60
        return face


def first_shown(fields: CronFields, moment: float, zone: tzinfo) -> float:
    """Return the first moment from `moment` on, a whole second, at which the clock fits; inf for none."""
    latest = moment + _LONGEST_WAIT_SECONDS
    while moment < latest:
        face = datetime.fromtimestamp(moment, zone)
        if face.month not in fields.months:
            # 32 days from its first are in the next month, however long this one is.
            moment = _midnight((face.replace(day=1) + timedelta(32)).replace(day=1), moment)
        elif not fields.on(face):
            moment = _midnight(face + timedelta(1), moment)
        elif face.hour not in fields.hours:
            moment += _QUARTER - (face.minute * 60 + face.second) % _QUARTER
        elif face.minute not in fields.minutes:
            moment += (_next(fields.minutes, face.minute) - face.minute) * 60 - face.second
        elif face.second not in fields.seconds:
            moment += _next(fields.seconds, face.second) - face.second
        else:
            return moment
    return math.inf


def _next(values: Sequence[int], value: int) -> int:
    """Return the least of the values that is more than `value`, or 60."""
    at = bisect_right(values, value)
    return values[at] if at < len(values) else 60


def _midnight(day: datetime, moment: float) -> float:
    """Return when a day begins, but later than `moment`: some clocks were put back over midnight."""
    return max(moment + 1, datetime.combine(day, time(), day.tzinfo).timestamp())

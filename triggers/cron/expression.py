"""Cron expressions, parsed as Nuclio's parser reads them (robfig/cron v3), and a little more. Pure."""

import calendar
import re
from dataclasses import dataclass
from datetime import date

NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LONGEST = 200
_STARS = ("*", "?")
_ZONES = ("TZ=", "CRON_TZ=")
_EVERY = "@every"
_WHOLE = "expected 5 fields (minute hour day month weekday), 6 (second first), or a name such as @daily"
_FROM_THE_END = re.compile(r"(\w+)(L|#[1-5])")

Values = frozenset[int | str]


class ScheduleError(ValueError):
    """A text that is no schedule or zone; the error's words follow that text."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field's values: numbers from `low` to `high`, `names` of them from `low` on, and what `also` says."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    also: str = ""

    def number(self, text: str) -> int | None:
        """Return the number that the text stands for; None for what is no value of the field."""
        if text.upper() in self.names:
            return self.low + self.names.index(text.upper())
        highest = 7 if self is _WEEKDAY else self.high  # 7 is Sunday too, as for robfig/cron's users
        is_number = text.isascii() and text.isdigit()
        return number if is_number and self.low <= (number := int(text)) <= highest else None

    def error(self, written: str, why: str = "") -> ScheduleError:
        """Return the error of a field that has `written` where a value should be."""
        names = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        span = f"{self.low} to {self.high}{names}{self.also}"
        return ScheduleError(
            f"is no schedule: its {self.name} has {written!r}{why}; expected {span}, *, a range such as"
            f" {self.low}-{self.high}, a step such as */2, or several with commas between"
        )


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SECOND = _Field("second", 0, 59)
_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day", 1, 31, also=", L, LW")
_MONTH = _Field("month", 1, 12, _MONTHS)
_WEEKDAY = _Field("weekday", 0, 6, _WEEKDAYS, ", 5L, 1#2")
_FIELDS = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


@dataclass(frozen=True, slots=True)
class CronFields:
    """The times of a clock that a schedule fires at. Numbers are in order; days are named as in `on`.

    `is_either`: a day needs to fit `days` or `weekdays`, not both. `is_fixed`: 5 fields, hour and minute
    without a star.
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: Values
    months: tuple[int, ...]
    weekdays: Values
    is_either: bool
    is_fixed: bool

    def on(self, day: date) -> bool:
        """Whether the day fits, whatever its month."""
        fits_day = day.day in self.days or not self.days.isdisjoint(_last_days(day))
        # Either, and this one fits; or both, and this one doesn't: the weekday isn't asked.
        if fits_day is self.is_either:
            return fits_day
        weekday = day.isoweekday() % 7
        return weekday in self.weekdays or not self.weekdays.isdisjoint(_weekdays(day, weekday))


def parse_schedule(text: str) -> CronFields:
    """Parse a schedule: 5 fields, 6 with seconds first, or one of NAMES. Raises ScheduleError."""
    written = _split(text)
    has_second = len(written) == len(_FIELDS)
    fixed = () if has_second else written[:2]
    if not has_second or written[0] == "*":  # which Nuclio makes a 0, too
        written = ["0", *written[-5:]]
    second, minute, hour, day, month, weekday = map(_values, _FIELDS, written)
    return CronFields(
        _numbers(second),
        _numbers(minute),
        _numbers(hour),
        day,
        _numbers(month),
        weekday,
        is_either=not (_has_star(written[3]) or _has_star(written[5])),
        is_fixed=bool(fixed) and not any(part.startswith(_STARS) for part in fixed),
    )


def _split(text: str) -> list[str]:
    if len(text) > _LONGEST:
        raise ScheduleError(f"is no schedule: it is longer than {_LONGEST} characters")
    # Two things that Nuclio takes in this place are settings here: the error says which.
    first, *rest = text.split() or [""]
    if first.startswith(_ZONES):
        zone = first.partition("=")[2]
        raise ScheduleError(f"names a time zone; set timeZone to {zone!r}, and leave {first!r} out here")
    if first == _EVERY:
        raise ScheduleError(f"is an interval; set interval to {' '.join(rest)!r} instead of a schedule")
    written = NAMES.get(text.strip().lower(), text).split()
    if len(written) not in {5, 6}:
        plural = "" if len(written) == 1 else "s"
        raise ScheduleError(f"is no schedule: it has {len(written)} field{plural}; {_WHOLE}")
    return written


def _values(field: _Field, text: str) -> Values:
    """Return all values that a field names, over all of its commas. Raises ScheduleError."""
    # Empty parts between commas are skipped, as robfig/cron does.
    found = frozenset[int | str]().union(*(_part(field, part) for part in text.split(",") if part))
    if not found:
        raise field.error(text)
    return found


def _part(field: _Field, text: str) -> Values:
    special = _special(field, text.upper())
    if special:
        return frozenset({special})
    span, slash, step = text.partition("/")
    first, dash, last = span.partition("-")
    if first in _STARS and not dash:
        low, high = field.low, field.high
    else:
        begin, end = field.number(first), field.number(last)
        if begin is None or (dash and end is None):
            raise field.error(text)
        # A value with a step, such as 5/15, goes on to the field's end.
        low = begin
        high = end if end is not None else field.high if slash else begin
    if slash and not (step.isascii() and step.isdigit() and int(step)):
        raise field.error(text, ", whose step is no number from 1 on")
    if low > high:
        raise field.error(text, ", which ends before it begins")
    values = range(low, high + 1, int(step or 1))
    # 7 is Sunday, and becomes 0 only here, so that a range such as 5-7 may be written.
    return frozenset(value % 7 for value in values) if field is _WEEKDAY else frozenset(values)


def _special(field: _Field, text: str) -> str:
    """Return a day that Nuclio's parser doesn't know: the last one, a last Friday or second Monday."""
    if field is _DAY and text in {"L", "LW"}:
        return text
    found = _FROM_THE_END.fullmatch(text) if field is _WEEKDAY else None
    weekday = field.number(found[1]) if found else None
    return f"{weekday % 7}{found[2]}" if found and weekday is not None else ""


def _has_star(text: str) -> bool:
    """Whether a field has a star; as in Nuclio's parser, one with a step of more than 1 is none."""
    parts = (part.partition("/") for part in text.split(","))
    return any(span in _STARS and int(step or 1) == 1 for span, _, step in parts)


def _numbers(values: Values) -> tuple[int, ...]:
    return tuple(sorted(value for value in values if isinstance(value, int)))


def _last_days(day: date) -> set[str]:
    first, count = calendar.monthrange(day.year, day.month)
    # From Monday as 0, Saturday is 5 and Sunday 6: LW is the Friday before, one or two days earlier.
    weekend_days = max(0, (first + count - 1) % 7 - 4)
    return {name for name, last in (("L", count), ("LW", count - weekend_days)) if day.day == last}


def _weekdays(day: date, weekday: int) -> set[str]:
    is_last = day.day + 7 > calendar.monthrange(day.year, day.month)[1]
    # The nth of a weekday is among the days from 7n-6 to 7n.
    return {f"{weekday}#{(day.day + 6) // 7}", f"{weekday}L" if is_last else ""}

"""Differences from Nuclio: where a schedule means something else there, or may surprise as there. Pure.

Each function returns a line of text for the user, empty where there is nothing to say.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from headrace.triggers.cron.schedule import FROM_NOW_ON, Schedule, first_shown

_DAYS = 12 * 366  # enough for any date on each weekday, and for any change of the clocks


def second_is_zero(text: str) -> str:
    """Note that the * of six fields, as the second, is second 0."""
    fields = text.split()
    if len(fields) != 6 or fields[0] != "*" or blanks_count(text):
        return ""
    return "a * as the second is second 0, as in Nuclio; */1 is every second"


def blanks_count(text: str) -> str:
    """Note blanks by which Nuclio reads another schedule.

    Nuclio looks for six fields by counting blanks, and makes a * before the first one 0.
    """
    fields, counted = text.split(), text.split(" ")
    is_zero_there = len(counted) > 5 and counted[0] == "*"
    if not fields or fields[0] != "*" or is_zero_there == (len(fields) == 6):
        return ""
    there, here = "0*" if is_zero_there else "*0"
    why = "for the blanks around it"
    return f"its first * is {there} in Nuclio, {why}, and {here} here; write one blank between fields"


def clocks_change(schedule: Schedule) -> str:
    """Note a schedule of 5 fields with a fixed hour that summer time leaves out or repeats."""
    if not schedule.fields.is_fixed or schedule.zone is UTC:
        return ""
    spans = _changes(schedule.zone)
    if not any(first_shown(schedule.fields, low, UTC) < high for low, high in spans):
        return ""
    return (
        "at a time that clocks leap over, or show twice, it fires once;"
        " Nuclio fires not at all, or twice, as 6 fields do here"
    )


def _changes(zone: tzinfo) -> Iterator[tuple[float, float]]:
    """Yield what the clock leaps over or shows twice, from and to, in seconds as if it was UTC."""
    for day in range(_DAYS):
        begin, end = FROM_NOW_ON + day * 86400, FROM_NOW_ON + (day + 1) * 86400
        if _ahead(begin, zone) == (after := _ahead(end, zone)):
            continue
        # The change is somewhere in this day: found by halving, to the second.
        while end - begin > 1:
            middle = (begin + end) // 2
            begin, end = (begin, middle) if _ahead(middle, zone) == after else (middle, end)
        faces = end + _ahead(begin, zone), end + after
        yield min(faces), max(faces)


def _ahead(moment: float, zone: tzinfo) -> float:
    """Return how many seconds the zone is ahead of UTC at a moment."""
    ahead = datetime.fromtimestamp(moment, zone).utcoffset()
    return (ahead or timedelta()).total_seconds()

"""What a request asks for: of which model, in which time, in how many parts."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.functions.model_metrics.messages.storable import is_storable

MOST_PARTS = 100
_DEFAULT_SPAN = timedelta(hours=1)
_FIRST = datetime.min.replace(tzinfo=UTC)
_MINUTE = timedelta(minutes=1)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
NAMES = {
    "namespace": "namespace",
    "modelName": "model_name",
    "modelVersion": "model_version",
    "pipelineName": "pipeline_name",
}
"""Parameters, and the columns that they are about."""
_TIMES = ("startTime", "endTime", "interval")


class QueryError(Exception):
    """What is wrong with a request, in one line for whoever sent it."""


@dataclass(frozen=True, slots=True)
class MetricsQuery:
    """`start` is a whole minute, `interval` a whole number of them; `end` is not included."""

    of: Mapping[str, str]
    """Columns of the sums, and what stands there."""
    start: datetime
    end: datetime
    interval: timedelta

    @property
    def parts(self) -> list[datetime]:
        """The start of each."""
        return [self.start + place * self.interval for place in range(self.count)]

    @property
    def count(self) -> int:
        return max(1, math.ceil((self.end - self.start) / self.interval))

    def part_of(self, time: datetime) -> datetime:
        """The start of the one that `time` is in."""
        return self.start + (time - self.start) // self.interval * self.interval


def read_query(fields: Mapping[str, Any], now: datetime) -> MetricsQuery:
    """Raises QueryError. Without a time it is the last hour, without an interval as few minutes as fit."""
    known = {*NAMES, *_TIMES}
    if unknown := sorted(fields.keys() - known):
        raise QueryError(f"{unknown[0]} is no parameter; there are {', '.join(sorted(known))}")
    if twice := [name for name, said in fields.items() if not isinstance(said, str)]:
        raise QueryError(f"{twice[0]} is there more than once: give it once")
    end = _time(fields, "endTime") or now
    start = _time(fields, "startTime") or max(end, _FIRST + _DEFAULT_SPAN) - _DEFAULT_SPAN
    if start >= end:
        raise QueryError("startTime has to be before endTime")
    start = start.replace(second=0, microsecond=0)
    least = max(1, math.ceil((end - start) / MOST_PARTS / _MINUTE)) * _MINUTE
    interval = _interval(fields["interval"]) if fields.get("interval") else least
    if interval < least:
        raise QueryError(f"interval has to be {least / _MINUTE:.0f}m or more: at most {MOST_PARTS} parts")
    of = {column: fields[name] for name, column in NAMES.items() if name in fields}
    if unstorable := [name for name, column in NAMES.items() if not is_storable(of.get(column, ""))]:
        raise QueryError(f"{unstorable[0]} has a character that no name has")
    return MetricsQuery(of, start, end, interval)


def _time(fields: Mapping[str, str], name: str) -> datetime | None:
    if not (text := fields.get(name)):
        return None
    try:
        time = datetime.fromisoformat(text.replace(" ", "+"))  # a + in a query is a space
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):  # of a year that isn't there in UTC
        raise QueryError(f"{name} is no time; write it like 2026-05-17T12:30:00Z") from None


def _interval(text: str) -> timedelta:
    if not _DURATION.fullmatch(text):
        raise QueryError("interval is no duration; write it like 5m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if seconds <= 0 or seconds % 60:
        raise QueryError("interval has to be whole minutes")
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise QueryError("interval is too long") from None

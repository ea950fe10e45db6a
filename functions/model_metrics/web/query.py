"""Query parameters of the metrics API: which models, which time, in which parts."""

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
# Durations are written as in Go.
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
NAMES = {
    "namespace": "namespace",
    "modelName": "model_name",
    "modelVersion": "model_version",
    "pipelineName": "pipeline_name",
}
"""Column of the sums for each query parameter that names a model."""
_TIMES = ("startTime", "endTime", "interval")


class QueryError(Exception):
    """The query is wrong; the message says how, in one line for the client."""


@dataclass(frozen=True, slots=True)
class MetricsQuery:
    """A parsed query. `start` is a whole minute, `interval` a whole number of them; `end` is excluded."""

    filters: Mapping[str, str]
    """Values that columns of the sums have to equal."""
    start: datetime
    end: datetime
    interval: timedelta

    @property
    def parts(self) -> list[datetime]:
        """Start of each part."""
        return [self.start + place * self.interval for place in range(self.count)]

    @property
    def count(self) -> int:
        return max(1, math.ceil((self.end - self.start) / self.interval))

    def part_of(self, time: datetime) -> datetime:
        """Return the start of the part that contains `time`."""
        return self.start + (time - self.start) // self.interval * self.interval


def read_query(fields: Mapping[str, Any], now: datetime) -> MetricsQuery:
    """Parse query parameters. Raises QueryError.

    The default time is the last hour, the default interval the fewest minutes that make at most MOST_PARTS.
    """
    known = {*NAMES, *_TIMES}
    if unknown := sorted(fields.keys() - known):
        raise QueryError(f"{unknown[0]} is no parameter; there are {', '.join(sorted(known))}")
    # The trigger gives a list for a name that is repeated.
    if twice := [name for name, value in fields.items() if not isinstance(value, str)]:
        raise QueryError(f"{twice[0]} is there more than once: give it once")
    end = _time(fields, "endTime") or now
    # max: within an hour of the year 1 there is no time that is an hour earlier.
    start = _time(fields, "startTime") or max(end, _FIRST + _DEFAULT_SPAN) - _DEFAULT_SPAN
    if start >= end:
        raise QueryError("startTime has to be before endTime")
    # Sums are kept by minute, so parts begin and end with one.
    start = start.replace(second=0, microsecond=0)
    least = max(1, math.ceil((end - start) / MOST_PARTS / _MINUTE)) * _MINUTE
    interval = _interval(fields["interval"]) if fields.get("interval") else least
    if interval < least:
        raise QueryError(f"interval has to be {least / _MINUTE:.0f}m or more: at most {MOST_PARTS} parts")
    of = {column: fields[name] for name, column in NAMES.items() if name in fields}
    # The driver of PostgreSQL refuses a zero character with an error that would be taken for an outage (503).
    if unstorable := [name for name, column in NAMES.items() if not is_storable(of.get(column, ""))]:
        raise QueryError(f"{unstorable[0]} has a character that no name has")
    return MetricsQuery(of, start, end, interval)


def _time(fields: Mapping[str, str], name: str) -> datetime | None:
    if not (text := fields.get(name)):
        return None
    try:
        time = datetime.fromisoformat(text.replace(" ", "+"))  # in a query + stands for a space
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):  # a year out of range in UTC
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

"""Cron schedules by chance, most of them valid, and times around which clocks change."""

import random
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from headrace.triggers.cron.expression import NAMES

_ZONES = ("UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu")
_STARTS = (
    *("2026-01-02 12:00", "2026-02-27 23:59", "2026-03-08 00:30", "2026-03-28 23:00", "2026-10-25 00:30"),
    *("2026-10-25 02:40", "2026-11-01 01:40", "2027-12-31 23:59"),
)
_NUMBERS = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day": (1, 31),
    "month": (1, 12),
    "weekday": (0, 6),
}
_NAMES: dict[str, tuple[str, ...]] = {
    "month": ("JAN", "feb", "Mar", "OCT-DEC"),
    "weekday": ("SUN", "mon", "Fri", "MON-fri"),
}
_ODD = ("32", "60", "7", "-1", "x", "", "L", "5L", "1#2", "LW", "*/0", "9-3", "1/2/3")


@dataclass(frozen=True, slots=True)
class Case:
    """A schedule, where it counts, and from when on it is asked."""

    text: str
    zone: str
    starts: tuple[int, ...]


def random_case(chance: random.Random) -> Case:
    """The same ones from the same seed."""
    zone = chance.choice(_ZONES)
    starts = (datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)) for start in _STARTS)
    return Case(_text(chance), zone, tuple(int(start.timestamp()) for start in starts))


def _text(chance: random.Random) -> str:
    if chance.random() < 0.04:
        return chance.choice([*NAMES, "@every 90s", "@every 1h30m", "@Daily", "@fortnightly", ""])
    fields = [_field(chance, name) for name in list(_NUMBERS)[chance.random() < 0.5 :]]
    if chance.random() < 0.02:
        fields = fields[chance.randrange(3) :]
    blank = chance.choice(["  ", "\t"]) if chance.random() < 0.04 else " "
    zone = chance.choice(["TZ=", "CRON_TZ="]) + "Europe/Berlin " if chance.random() < 0.02 else ""
    end = " " if chance.random() < 0.02 else ""
    return zone + blank.join(fields) + end


def _field(chance: random.Random, name: str) -> str:
    if chance.random() < 0.3:
        return "*"
    count = chance.choice([1, 1, 1, 1, 2, 3])
    return ",".join(_part(chance, name) for _ in range(count))


def _part(chance: random.Random, name: str) -> str:
    if chance.random() < 0.01:
        return chance.choice(_ODD)
    low, high = _NUMBERS[name]
    if name == "hour" and chance.random() < 0.5:
        high = 4  # where clocks change
    first, last = sorted((chance.randint(low, high), chance.randint(low, high)))
    step = chance.choice([1, 1, 2, 2, 3, 5, 7, 15, 99])
    forms = ["*", "?", f"*/{step}", f"?/{step}", f"{first}/{step}", f"{first}-{last}"]
    forms += [f"{first}-{last}/{step}", f"{first}-{first}/{step}", *([str(first)] * 3)]
    return chance.choice([*forms, *_NAMES.get(name, ())])

"""Go duration strings ("300ms", "1h30m", "-1.5s", "0") to seconds and back.

The grammar and the limits are those of Go's time.ParseDuration, which Nuclio's files are written
for: an optional sign, then numbers with a unit each; whole nanoseconds in 64 bits.
"""

import re
from fractions import Fraction

_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # micro sign
    "\u03bcs": 10**3,  # Greek mu: looks the same, and Go takes both
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
# The grammar for JSON schemas, and the empty text that Go's tools write for a duration that isn't given.
DURATION_PATTERN = r"^([+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+))?$"
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_LIMIT_NANOSECONDS = 2**63
_LONGEST_TEXT = 100  # no sane duration is longer; keeps int() far from its own digit limit


class DurationError(ValueError):
    """The text is not a Go duration; the message says what is wrong with it."""


def parse_duration(text: str) -> float:
    """Return the seconds of a Go duration string. Raises DurationError, which says what is wrong."""
    if len(text) > _LONGEST_TEXT:
        raise DurationError(f"a duration has at most {_LONGEST_TEXT} characters")
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    nanoseconds = 0 if unsigned == "0" else _magnitude(text, unsigned)
    if nanoseconds >= _LIMIT_NANOSECONDS:
        raise DurationError(f"{text!r} is too long; the longest duration is about 292 years")
    return (-nanoseconds if text[0] == "-" else nanoseconds) / 10**9


def _magnitude(text: str, unsigned: str) -> int:
    if not unsigned:
        raise DurationError(f"{text!r} is empty; expected something like 10s or 1m30s")
    nanoseconds, at = 0, 0
    while at < len(unsigned):
        part = _PART.match(unsigned, at)
        assert part is not None  # every group may be empty, so the pattern matches anywhere
        nanoseconds += _part_nanoseconds(text, *part.groups(default=""))
        at = part.end()
    return nanoseconds


def _part_nanoseconds(text: str, whole: str, fraction: str, unit: str) -> int:
    if not whole and not fraction:
        raise DurationError(f"{text!r} has a unit or a sign without a number")
    if not unit:
        raise DurationError(f"{text!r} has a number without a unit; write {whole or 0}s or 10ms")
    if unit not in _NANOSECONDS:
        raise DurationError(f"{text!r} has an unknown unit {unit!r}; units: ns us ms s m h")
    # Below a nanosecond Go cuts off, and so does the floor here.
    return int(Fraction(f"{whole or 0}.{fraction or 0}") * _NANOSECONDS[unit])


def format_duration(seconds: float) -> str:
    """Return the shortest Go duration string that parse_duration turns into the same float.

    Rounds to whole nanoseconds. Hours, minutes and seconds that are zero are left out: 5m, not 5m0s.
    """
    nanoseconds = round(Fraction(seconds) * 10**9)
    sign = "-" if nanoseconds < 0 else ""
    nanoseconds = abs(nanoseconds)
    if nanoseconds < _NANOSECONDS["s"]:
        return sign + _below_a_second(nanoseconds)
    hours, rest = divmod(nanoseconds, _NANOSECONDS["h"])
    minutes, rest = divmod(rest, _NANOSECONDS["m"])
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    parts.append(_decimal(rest, "s") if rest else "")
    return sign + "".join(parts)


def _below_a_second(nanoseconds: int) -> str:
    for unit in ("ms", "us", "ns"):
        if nanoseconds >= _NANOSECONDS[unit]:
            return _decimal(nanoseconds, unit)
    return "0s"


def _decimal(nanoseconds: int, unit: str) -> str:
    whole, rest = divmod(nanoseconds, _NANOSECONDS[unit])
    if not rest:
        return f"{whole}{unit}"
    digits = len(str(_NANOSECONDS[unit])) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") + unit

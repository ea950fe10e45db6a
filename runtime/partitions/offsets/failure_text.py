"""The text of a failure in one line: of a traceback, the line that names the exception."""

import re
from collections.abc import Sequence
from typing import Any

_LINE_CHARS = 300
_HEADER = "Traceback (most recent call last):"
_GROUP = "  + Exception Group " + _HEADER
_HEADERS = (_HEADER, _GROUP)
_FRAMES_IN_GROUP = "  | "
_FRAME = '  File "'
_EXCEPTION = re.compile(r"[^\W\d][\w.]*")
# What stands between two tracebacks, in Python's words. The last one is of what was raised at last.
_BETWEEN = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)


def in_one_line(reason: str) -> str:
    """Return a traceback's line with the exception's name, or another text's first line.

    Cut if it is long.
    """
    return _named_in(_last_part(reason)).rstrip(":")[:_LINE_CHARS]


def log_extra(reason: str, *, is_known: bool = False, **fields: Any) -> dict[str, Any]:
    """Return the `extra` of a log line that has a failure in one line.

    That is `fields`, the exception's name, and the whole text unless `is_known`: it was logged before.
    """
    if name := _exception_in(reason):
        fields["exception"] = name
    return {"fields": fields, "error": "" if is_known or in_one_line(reason) == reason else reason}


def is_alike(reason: str, other: str) -> bool:
    """Whether two failures differ in the exception's message alone: it was raised at the same place."""
    return _origin(reason) == _origin(other)


def _exception_in(reason: str) -> str:
    """Return the exception's name, "" if the text is no traceback."""
    found = _EXCEPTION.match(in_one_line(reason)) if _last_part(reason)[0] in _HEADERS else None
    return found[0] if found else ""


def _origin(reason: str) -> tuple[str, ...]:
    name = _exception_in(reason)
    frames = [line for line in reason.splitlines() if line.startswith(_FRAME)]
    return (name, *frames) if name else (in_one_line(reason),)


def _last_part(reason: str) -> Sequence[str]:
    """Return the lines from the last traceback on: one at least."""
    lines = [line for line in reason.splitlines() if line.strip()] or [""]
    last = max((at + 1 for at, line in enumerate(lines) if line in _BETWEEN), default=0)
    return lines[last:] or lines


def _named_in(lines: Sequence[str]) -> str:
    """Return the first line behind the frames. What follows it belongs to the message."""
    if lines[0] == _GROUP:
        lines = [line.removeprefix(_FRAMES_IN_GROUP) for line in lines]
    if lines[0] not in _HEADERS:
        return lines[0]
    return next((line for line in lines[1:] if not line.startswith(" ")), lines[-1])

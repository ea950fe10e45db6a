"""Why a record failed, in a line: the one that names the exception."""

from collections.abc import Sequence

_LINE_CHARS = 300
_HEADER = "Traceback (most recent call last):"
_GROUP = "  + Exception Group " + _HEADER
_FRAMES_IN_GROUP = "  | "
# What stands between two tracebacks, in Python's words. The last one is of what was raised at last.
_BETWEEN = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)


def in_one_line(reason: str) -> str:
    """Of a traceback the line with the exception's name, of another text its first; cut where it is long."""
    lines = [line for line in reason.splitlines() if line.strip()] or [""]
    last = max((at + 1 for at, line in enumerate(lines) if line in _BETWEEN), default=0)
    return _named_in(lines[last:] or lines).rstrip(":")[:_LINE_CHARS]


def _named_in(lines: Sequence[str]) -> str:
    """The first line behind the frames. What follows it belongs to the message."""
    if lines[0] == _GROUP:
        lines = [line.removeprefix(_FRAMES_IN_GROUP) for line in lines]
    if lines[0] not in (_HEADER, _GROUP):
        return lines[0]
    return next((line for line in lines[1:] if not line.startswith(" ")), lines[-1])

"""The Range header of objects: a part to read, or the end to write at."""

import re

from headrace.runtime.embedded.v3io.errors import ApiError, invalid_argument

APPEND = "-1"
"""Of a PUT: behind what is there."""

# v3io clients send `bytes=4` for all from 4 on, as others send `bytes=4-`.
_RANGE = re.compile(r"bytes=([0-9]{1,18})(?:-([0-9]{1,18})?)?|bytes=-([0-9]{1,18})")


def part_of(header: str, size: int) -> slice:
    """What of an object of `size` bytes is asked for. ApiError where there is no such part."""
    found = _RANGE.fullmatch(header.strip())
    if found is None:
        raise invalid_argument(f"Range is {header[:40]!r}, expected bytes=FIRST-LAST")
    first, last, suffix = found.groups()
    start = size - min(int(suffix), size) if suffix else int(first)
    end = min(int(last) + 1, size) if last else size
    if start >= end:
        raise ApiError(416, -22, f"Invalid range: {header[:40]!r} of {size} bytes")
    return slice(start, end)

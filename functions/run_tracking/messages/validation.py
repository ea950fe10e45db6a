"""Checks of parts of items: nesting depth, size of contexts, keys of blobs."""

from typing import Any

import msgspec

_MOST_DEPTH = 32
_MOST_CONTEXT_BYTES = 4096  # listed with each sequence of its run
# What file systems of Linux take as a name, and S3 as a key.
_LONGEST_PART = 255
_LONGEST_KEY = 1024


def check_depth(value: Any, left: int = _MOST_DEPTH) -> None:
    """Raise ValueError if objects and lists are nested deeper than `left`: later readers recurse."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return
    if not left:
        raise ValueError(f"it is nested deeper than {_MOST_DEPTH}")
    for member in value:
        check_depth(member, left - 1)


def check_context(context: dict[str, Any] | None) -> None:
    """Raise ValueError if a context is nested too deep or its JSON is too long."""
    if not context:
        return
    check_depth(context)
    if (size := len(msgspec.json.encode(context))) > _MOST_CONTEXT_BYTES:
        raise ValueError(f"its context is of {size} bytes: at most {_MOST_CONTEXT_BYTES}")


def weight_of(value: Any) -> tuple[int, int]:
    """Return the bytes of a value as JSON, and its number of names, nested ones included."""
    return len(msgspec.json.encode(value)), _names_of(value)


def _names_of(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_names_of, value.values()))
    return sum(map(_names_of, value)) if isinstance(value, list) else 0


def is_blob_key(key: str) -> bool:
    """Whether `key` is a valid key of a blob."""
    try:
        check_blob_key(key)
    except ValueError:
        return False
    return True


def check_blob_key(key: str) -> None:
    """Raise ValueError, in one line, for a key that isn't RUN/PATH or could leave its folder."""
    parts = key.split("/")
    if len(parts) < 2:
        raise ValueError(f"the key {key[:200]!r} has no run before a slash")
    if len(key.encode("utf-8", "replace")) > _LONGEST_KEY:
        raise ValueError(f"the key {key[:200]!r}... is longer than {_LONGEST_KEY} bytes")
    for part in parts:
        # Such a part would name another place than it says, or none.
        if part in {"", ".", ".."} or not part.isprintable() or "\\" in part:
            raise ValueError(f"the key {key[:200]!r} has a part that is no name: {part[:200]!r}")
        if len(part.encode("utf-8", "replace")) > _LONGEST_PART:
            raise ValueError(f"the key {key[:200]!r} has a part that is longer than {_LONGEST_PART} bytes")

"""What is nested in an item: no deeper than all who read it later can go, and a context of a few words."""

from typing import Any

import msgspec

_MOST_DEPTH = 32


_MOST_CONTEXT_BYTES = 4096  # it is listed with each sequence of its run


def check_depth(value: Any, left: int = _MOST_DEPTH) -> None:
    """Raises ValueError for objects and lists in each other beyond that."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return
    if not left:
        raise ValueError(f"it is nested deeper than {_MOST_DEPTH}")
    for member in value:
        check_depth(member, left - 1)


def check_context(context: dict[str, Any] | None) -> None:
    """Raises ValueError for one that is too deep, or too long."""
    if not context:
        return
    check_depth(context)
    if (size := len(msgspec.json.encode(context))) > _MOST_CONTEXT_BYTES:
        raise ValueError(f"its context is of {size} bytes: at most {_MOST_CONTEXT_BYTES}")


def weight_of(value: Any) -> tuple[int, int]:
    """Bytes as JSON, and how many names there are, those of what is nested included."""
    return len(msgspec.json.encode(value)), _names_of(value)


def _names_of(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_names_of, value.values()))
    return sum(map(_names_of, value)) if isinstance(value, list) else 0


_LONGEST_PART = 255


_LONGEST_KEY = 1024


def is_blob_key(key: str) -> bool:
    """Whether there may be a blob of that key."""
    try:
        check_blob_key(key)
    except ValueError:
        return False
    return True


def check_blob_key(key: str) -> None:
    """Raises ValueError, in one line, for what would be another place than it says, or none."""
    parts = key.split("/")
    if len(parts) < 2:
        raise ValueError(f"the key {key[:200]!r} has no run before a slash")
    if len(key.encode("utf-8", "replace")) > _LONGEST_KEY:
        raise ValueError(f"the key {key[:200]!r}... is longer than {_LONGEST_KEY} bytes")
    for part in parts:
        if part in {"", ".", ".."} or not part.isprintable() or "\\" in part:
            raise ValueError(f"the key {key[:200]!r} has a part that is no name: {part[:200]!r}")
        if len(part.encode("utf-8", "replace")) > _LONGEST_PART:
            raise ValueError(f"the key {key[:200]!r} has a part that is longer than {_LONGEST_PART} bytes")

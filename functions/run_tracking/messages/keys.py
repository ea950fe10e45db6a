"""Which texts can be the key of a blob, in every store alike."""

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

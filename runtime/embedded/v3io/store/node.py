"""What a path names: a directory, a stream, a shard or a file, which may be an item."""

import json
from enum import IntEnum
from typing import Any, NamedTuple

NANOSECONDS = 1_000_000_000


class NodeKind(IntEnum):
    """As `__obj_type` says it. The platform's number of a shard is known, the others are ours.

    Both kinds of directories stand between those of files.
    """

    FILE = 0
    DIRECTORY = 1
    STREAM = 2
    SHARD = 3


_DIRECTORIES = {NodeKind.DIRECTORY, NodeKind.STREAM}


class Node(NamedTuple):
    """A row, as it was read. `attributes` is JSON, `size` in bytes; the sequences are a shard's.

    `first_sequence` is the oldest record's that is kept: one above `last_sequence` where there is none.
    """

    inode: int
    folder: str
    name: str
    kind: int
    mtime_ns: int
    ctime_ns: int
    shard_count: int
    retention_hours: int
    first_sequence: int
    last_sequence: int
    attributes: str
    size: int

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def is_directory(self) -> bool:
        """Whether others are in it. A stream is one."""
        return self.kind in _DIRECTORIES

    @property
    def mode(self) -> int:
        return 0o40775 if self.is_directory else 0o100664

    @property
    def own_attributes(self) -> dict[str, dict[str, Any]]:
        """What clients have set, typed as it travels."""
        found: dict[str, dict[str, Any]] = json.loads(self.attributes)
        return found


COLUMNS = (
    "inode, folder, name, kind, mtime_ns, ctime_ns, shard_count, retention_hours, "
    "first_sequence, last_sequence, attributes, length(data)"
)

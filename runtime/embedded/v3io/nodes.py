"""The tree of nodes: directories, streams, shards and files, found by their address."""

import json
import time
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from headrace.runtime.embedded.v3io.database import Database
from headrace.runtime.embedded.v3io.errors import invalid_argument, no_such_file, not_a_directory, not_empty

# Making a node makes what is missing above it, by recursion, whose depth this bounds.
_MAX_NAMES = 100


class Address(NamedTuple):
    """A path, as `bigdata/streams` and `orders`; a container is in the folder ``.

    `has_slash`: the path ended in one, which tells a directory.
    """

    folder: str
    name: str
    has_slash: bool = False

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def parent(self) -> "Address":
        """The directory above; only of what is in a container."""
        folder, _, name = self.folder.rpartition("/")
        return Address(folder, name)

    @property
    def container(self) -> str:
        return self.folder.partition("/")[0] or self.name

    def below(self, name: str) -> "Address":
        return Address(self.path, name)


def parse_address(path: str) -> Address:
    """Parse a path as it stands in a request, whose slashes may repeat. The root has no name. ApiError."""
    try:
        text = unquote_to_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise invalid_argument("a path is UTF-8, percent-encoded") from error
    if not text.replace(" ", "").isprintable():
        raise invalid_argument("a path has printable characters only")
    names = [name for name in text.split("/") if name]
    if any(name in {".", ".."} for name in names):
        raise invalid_argument("a path has no steps . and ..")
    if len(names) > _MAX_NAMES:
        raise invalid_argument(f"a path has at most {_MAX_NAMES} names")
    return Address("/".join(names[:-1]), names[-1] if names else "", text.endswith("/"))


class WriteClock:
    """The times of writes: each is later than all before, whatever the machine's clock does.

    Clients make writes conditional on mtime, so two writes must not have the same.
    """

    def __init__(self, last_ns: int) -> None:
        self._last_ns = last_ns

    def next_ns(self) -> int:
        """Return the time of the next write in nanoseconds since 1970."""
        self._last_ns = max(time.time_ns(), self._last_ns + 1)
        return self._last_ns


NANOSECONDS = 1_000_000_000


class NodeKind(IntEnum):
    """The kinds of nodes, as in `__obj_type`. A shard's number is the platform's, the others are made up.

    Both kinds of directories stand between those of files: a scan asks for them by a range.
    """

    FILE = 0
    DIRECTORY = 1
    STREAM = 2
    SHARD = 3


_DIRECTORIES = {NodeKind.DIRECTORY, NodeKind.STREAM}


class Node(NamedTuple):
    """A row of the table of nodes. `attributes` is JSON, `size` in bytes; the sequences are a shard's.

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
        """Whether other nodes may be in it. A stream is a directory of shards."""
        return self.kind in _DIRECTORIES

    @property
    def mode(self) -> int:
        return 0o40775 if self.is_directory else 0o100664

    @property
    def own_attributes(self) -> dict[str, dict[str, Any]]:
        """The attributes that clients have set, typed as in requests."""
        found: dict[str, dict[str, Any]] = json.loads(self.attributes)
        return found


COLUMNS = (
    "inode, folder, name, kind, mtime_ns, ctime_ns, shard_count, retention_hours, "
    "first_sequence, last_sequence, attributes, length(data)"
)
_FIND = f"SELECT {COLUMNS} FROM nodes WHERE folder = ? AND name = ?"  # noqa: S608  # a constant
_CHILDREN = f"""
SELECT {COLUMNS} FROM nodes
WHERE folder = ? AND name > ? AND name >= ? AND kind BETWEEN ? AND ? ORDER BY name LIMIT ?
"""  # noqa: S608
_MAKE = "INSERT INTO nodes (folder, name, kind, mtime_ns, ctime_ns) VALUES (?, ?, ?, ?, ?)"


class Nodes:
    """The table of nodes. Each change of a node gives it a new mtime; callers begin transactions."""

    def __init__(self, database: Database, clock: WriteClock) -> None:
        self._database = database
        self._clock = clock

    def find(self, address: Address) -> Node | None:
        row = self._database.row(_FIND, address.folder, address.name)
        return None if row is None else Node._make(row)

    def existing(self, address: Address) -> Node:
        """Return the node of an address. ApiError where there is none."""
        node = self.find(address)
        if node is None:
            raise no_such_file()
        return node

    def children(
        self, folder: str, after: str, most: int, *, start: str = "", is_directories_only: bool = False
    ) -> Iterator[Node]:
        """Yield what is in a directory, by name, behind the name `after`, and not before `start`.

        Rows are read as they are taken: nothing may be written meanwhile.
        """
        first, last = (
            (NodeKind.DIRECTORY, NodeKind.STREAM) if is_directories_only else (NodeKind.FILE, NodeKind.SHARD)
        )
        rows = self._database.execute(_CHILDREN, (folder, after, start, first, last, most))
        return map(Node._make, rows)

    def data(self, node: Node) -> bytes:
        """Return the content of a file."""
        row = self._database.row("SELECT data FROM nodes WHERE inode = ?", node.inode)
        assert row is not None
        return bytes(row[0])

    def make(self, address: Address, kind: NodeKind) -> Node:
        """Make a node, and the directories above it. ApiError where one of them is something else."""
        self._make_folder(address)
        now_ns = self._clock.next_ns()
        self._database.execute(_MAKE, (*address[:2], kind, now_ns, now_ns))
        return self.existing(address)

    def touch(self, node: Node, **changed: str | bytes | int) -> Node:
        """Change columns of a node; return it as it is then."""
        mtime_ns = self._clock.next_ns()
        columns = ", ".join(f"{name} = ?" for name in changed)
        self._database.execute(
            f"UPDATE nodes SET mtime_ns = ?, {columns} WHERE inode = ?",  # noqa: S608  # names of ours
            (mtime_ns, *changed.values(), node.inode),
        )
        # The column of the size is computed by SQLite: the node has to be told of new data by hand.
        data = changed.pop("data", None)
        size = len(data) if isinstance(data, bytes) else node.size
        return node._replace(mtime_ns=mtime_ns, size=size, **changed)  # type: ignore[arg-type]  # by column

    def delete(self, node: Node) -> None:
        """Delete a node. ApiError for a directory that isn't empty."""
        if node.is_directory and any(self.children(node.path, "", 1)):
            raise not_empty()
        self._database.execute("DELETE FROM nodes WHERE inode = ?", (node.inode,))

    def _make_folder(self, address: Address) -> None:
        if not address.folder:
            return
        # A path needs no directory that was made before: all that are missing are made.
        parent = self.find(address.parent)
        if parent is None:
            self.make(address.parent, NodeKind.DIRECTORY)
        elif not parent.is_directory:
            raise not_a_directory()

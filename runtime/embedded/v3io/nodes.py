"""Where something is: a container, and names in it."""

import json
import time
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from headrace.runtime.embedded.v3io.database import Database
from headrace.runtime.embedded.v3io.errors import invalid_argument, no_such_file, not_a_directory, not_empty

_MOST_NAMES = 100


class Address(NamedTuple):
    """`bigdata/streams` and `orders`; a container is in the folder ``. `has_slash`: the path ended in one."""

    folder: str
    name: str
    has_slash: bool = False

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def parent(self) -> "Address":
        """Only of what is in a container."""
        folder, _, name = self.folder.rpartition("/")
        return Address(folder, name)

    @property
    def container(self) -> str:
        return self.folder.partition("/")[0] or self.name

    def below(self, name: str) -> "Address":
        return Address(self.path, name)


def parse_address(path: str) -> Address:
    """A path as it stands in a request, whose slashes may repeat. Empty names: the root. V3ioError."""
    try:
        text = unquote_to_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise invalid_argument("a path is UTF-8, percent-encoded") from error
    if not text.replace(" ", "").isprintable():
        raise invalid_argument("a path has printable characters only")
    names = [name for name in text.split("/") if name]
    if any(name in {".", ".."} for name in names):
        raise invalid_argument("a path has no steps . and ..")
    if len(names) > _MOST_NAMES:
        raise invalid_argument(f"a path has at most {_MOST_NAMES} names")
    return Address("/".join(names[:-1]), names[-1] if names else "", text.endswith("/"))


class WriteClock:
    """Each time is later than all before, whatever the machine's clock does: conditions compare them."""

    def __init__(self, last_ns: int) -> None:
        self._last_ns = last_ns

    def next_ns(self) -> int:
        """Nanoseconds since 1970."""
        self._last_ns = max(time.time_ns(), self._last_ns + 1)
        return self._last_ns


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


_FIND = f"SELECT {COLUMNS} FROM nodes WHERE folder = ? AND name = ?"  # noqa: S608  # a constant


_CHILDREN = f"""
SELECT {COLUMNS} FROM nodes
WHERE folder = ? AND name > ? AND name >= ? AND kind BETWEEN ? AND ? ORDER BY name LIMIT ?
"""  # noqa: S608


_MAKE = "INSERT INTO nodes (folder, name, kind, mtime_ns, ctime_ns) VALUES (?, ?, ?, ?, ?)"


class Nodes:
    """Each change of a node gives it a new mtime. What changes several is the caller's transaction."""

    def __init__(self, database: Database, clock: WriteClock) -> None:
        self._database = database
        self._clock = clock

    def find(self, address: Address) -> Node | None:
        row = self._database.row(_FIND, address.folder, address.name)
        return None if row is None else Node._make(row)

    def existing(self, address: Address) -> Node:
        """V3ioError where there is none."""
        node = self.find(address)
        if node is None:
            raise no_such_file()
        return node

    def children(
        self, folder: str, after: str, most: int, *, start: str = "", is_directories_only: bool = False
    ) -> Iterator[Node]:
        """What is in a directory, by name, beginning behind the name `after`, and not before `start`.

        Each is read when it is taken: nothing may be written meanwhile.
        """
        first, last = (
            (NodeKind.DIRECTORY, NodeKind.STREAM) if is_directories_only else (NodeKind.FILE, NodeKind.SHARD)
        )
        rows = self._database.execute(_CHILDREN, (folder, after, start, first, last, most))
        return map(Node._make, rows)

    def data(self, node: Node) -> bytes:
        """A file's."""
        row = self._database.row("SELECT data FROM nodes WHERE inode = ?", node.inode)
        assert row is not None
        return bytes(row[0])

    def make(self, address: Address, kind: NodeKind) -> Node:
        """With the directories above it. V3ioError where one of them is something else."""
        self._make_folder(address)
        now_ns = self._clock.next_ns()
        self._database.execute(_MAKE, (*address[:2], kind, now_ns, now_ns))
        return self.existing(address)

    def touch(self, node: Node, **changed: str | bytes | int) -> Node:
        """The node as it is with these columns changed."""
        mtime_ns = self._clock.next_ns()
        columns = ", ".join(f"{name} = ?" for name in changed)
        self._database.execute(
            f"UPDATE nodes SET mtime_ns = ?, {columns} WHERE inode = ?",  # noqa: S608  # names of ours
            (mtime_ns, *changed.values(), node.inode),
        )
        data = changed.pop("data", None)
        size = len(data) if isinstance(data, bytes) else node.size
        return node._replace(mtime_ns=mtime_ns, size=size, **changed)  # type: ignore[arg-type]  # by column

    def delete(self, node: Node) -> None:
        """A directory has to be empty. V3ioError."""
        if node.is_directory and any(self.children(node.path, "", 1)):
            raise not_empty()
        self._database.execute("DELETE FROM nodes WHERE inode = ?", (node.inode,))

    def _make_folder(self, address: Address) -> None:
        if not address.folder:
            return
        parent = self.find(address.parent)
        if parent is None:
            self.make(address.parent, NodeKind.DIRECTORY)
        elif not parent.is_directory:
            raise not_a_directory()

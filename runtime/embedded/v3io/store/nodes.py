"""The tree of nodes: found, made, changed, deleted."""

from collections.abc import Iterator

from headrace.runtime.embedded.v3io.database import Database
from headrace.runtime.embedded.v3io.errors import no_such_file, not_a_directory, not_empty
from headrace.runtime.embedded.v3io.store.address import Address
from headrace.runtime.embedded.v3io.store.clock import WriteClock
from headrace.runtime.embedded.v3io.store.node import COLUMNS, Node, NodeKind

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

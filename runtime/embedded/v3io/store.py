"""The store of a v3io server: its nodes, and the records of shards with their retention."""

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headrace.runtime.embedded.v3io.database import Database, open_database
from headrace.runtime.embedded.v3io.nodes import NANOSECONDS, Address, Node, NodeKind, Nodes, WriteClock

_COLUMNS = "sequence, arrival_ns, client_info, partition_key, data"
_APPEND = f"INSERT INTO records (shard, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608  # a constant
_READ = f"SELECT {_COLUMNS} FROM records WHERE shard = ? AND sequence >= ? ORDER BY sequence LIMIT ?"  # noqa: S608
_ARRIVAL = "SELECT arrival_ns FROM records WHERE shard = ? AND sequence = ?"
_MAX_DELETED_AT_ONCE = 1000
_HOUR_NS = 3600 * NANOSECONDS
_DISCARD = (
    "INSERT INTO garbage (shard, below) VALUES (?, ?) "
    "ON CONFLICT (shard) DO UPDATE SET below = max(below, excluded.below)"
)


class IncomingRecord(NamedTuple):
    client_info: bytes | None
    partition_key: str | None
    data: bytes


class StoredRecord(NamedTuple):
    """A record of a shard. `arrival_ns` doesn't fall from one to the next."""

    sequence: int
    arrival_ns: int
    client_info: bytes | None
    partition_key: str | None
    data: bytes


class ShardRecords:
    """The table of records. Those that are too old, or of a deleted shard, are garbage.

    Garbage is written down in the transaction that makes it so, and deleted a few at a time by later ones:
    no request waits for the deletion of millions.
    """

    def __init__(self, database: Database, nodes: Nodes, clock: WriteClock) -> None:
        self._database = database
        self._nodes = nodes
        self._clock = clock

    def append(self, shard: Node, new: Sequence[IncomingRecord]) -> int:
        """Append records; return the sequence number of the first. In the caller's transaction."""
        first, arrival_ns = shard.last_sequence + 1, self._clock.next_ns()
        rows = ((shard.inode, first + count, arrival_ns, *record) for count, record in enumerate(new))
        self._database.execute_many(_APPEND, rows)
        self._nodes.touch(shard, last_sequence=shard.last_sequence + len(new))
        return first

    def read(self, shard: Node, first: int, most: int) -> Iterator[StoredRecord]:
        """Yield records from the sequence number `first` on."""
        return map(StoredRecord._make, self._database.execute(_READ, (shard.inode, first, most)))

    def arrival_ns(self, shard: Node, sequence: int) -> int:
        """Return when a record that is kept arrived, in nanoseconds since 1970."""
        row = self._database.row(_ARRIVAL, shard.inode, sequence)
        assert row is not None
        return int(row[0])

    def first_since(self, shard: Node, arrival_ns: int) -> int:
        """Return the sequence number of the first record since a time; one above the last for none."""
        # Arrival times don't fall along a shard, so halving finds the first that is late enough.
        kept = range(shard.first_sequence, shard.last_sequence + 1)
        found = bisect_left(kept, arrival_ns, key=lambda sequence: self.arrival_ns(shard, sequence))
        return shard.first_sequence + found

    def without_expired(self, shard: Node, retention_hours: int) -> Node:
        """Return the shard without records that are too old by now. Not to be called in a transaction."""
        oldest_ns = time.time_ns() - retention_hours * _HOUR_NS
        # Mostly the oldest record is young enough: then nothing is written.
        first = shard.first_sequence
        if first > shard.last_sequence or self.arrival_ns(shard, first) >= oldest_ns:
            return shard
        kept = self.first_since(shard, oldest_ns)
        with self._database.transaction():
            self._database.execute("UPDATE nodes SET first_sequence = ? WHERE inode = ?", (kept, shard.inode))
            self._database.execute(_DISCARD, (shard.inode, kept))
            self.sweep()
        return shard._replace(first_sequence=kept)

    def discard(self, shard: Node) -> None:
        """Make all records of a deleted shard garbage. In the caller's transaction."""
        # Of a node that is no shard the number is 0: there is nothing to discard.
        if shard.last_sequence:
            self._database.execute(_DISCARD, (shard.inode, shard.last_sequence + 1))
            self.sweep()

    def sweep(self) -> None:
        """Delete some garbage, if there is any. In the caller's transaction."""
        garbage = self._database.row("SELECT shard, below FROM garbage LIMIT 1")
        if garbage is None:
            return
        shard, below = garbage
        (first,) = self._database.row("SELECT min(sequence) FROM records WHERE shard = ?", shard) or (None,)
        # One shard's garbage at a time, and a bounded part of it: each write deletes a little.
        if first is None or first >= below:
            self._database.execute("DELETE FROM garbage WHERE shard = ?", (shard,))
        else:
            self._database.execute(
                "DELETE FROM records WHERE shard = ? AND sequence < ?",
                (shard, min(below, first + _MAX_DELETED_AT_ONCE)),
            )


@dataclass(frozen=True, slots=True)
class Store:
    """The data that requests read and write. Owned by one thread; each call is done when it returns."""

    database: Database
    nodes: Nodes
    records: ShardRecords
    containers: frozenset[str]


def open_store(folder: Path, containers: Iterable[str]) -> Store:
    """Open the store in `folder`, with these containers. UsageError where the file can't be used."""
    database = open_database(folder)
    # Times of writes must not repeat across restarts either.
    (last_ns,) = database.row("SELECT coalesce(max(mtime_ns), 0) FROM nodes") or (0,)
    clock, names = WriteClock(last_ns), frozenset(containers)
    nodes = Nodes(database, clock)
    for name in sorted(names):
        if nodes.find(Address("", name)) is None:
            nodes.make(Address("", name), NodeKind.DIRECTORY)
    records = ShardRecords(database, nodes, clock)
    return Store(database, nodes, records, names)

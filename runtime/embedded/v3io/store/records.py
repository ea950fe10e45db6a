"""The records of shards."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.runtime.embedded.v3io.database import Database
from headrace.runtime.embedded.v3io.store.clock import WriteClock
from headrace.runtime.embedded.v3io.store.node import Node
from headrace.runtime.embedded.v3io.store.nodes import Nodes

_COLUMNS = "sequence, arrival_ns, client_info, partition_key, data"
_APPEND = f"INSERT INTO records (shard, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608  # a constant
_READ = f"SELECT {_COLUMNS} FROM records WHERE shard = ? AND sequence >= ? ORDER BY sequence LIMIT ?"  # noqa: S608
_ARRIVAL = "SELECT arrival_ns FROM records WHERE shard = ? AND sequence = ?"


class IncomingRecord(NamedTuple):
    client_info: bytes | None
    partition_key: str | None
    data: bytes


class StoredRecord(NamedTuple):
    """`arrival_ns` doesn't fall from one to the next."""

    sequence: int
    arrival_ns: int
    client_info: bytes | None
    partition_key: str | None
    data: bytes


class ShardRecords:
    def __init__(self, database: Database, nodes: Nodes, clock: WriteClock) -> None:
        self._database = database
        self._nodes = nodes
        self._clock = clock

    def append(self, shard: Node, new: Sequence[IncomingRecord]) -> int:
        """The sequence number of the first; the others follow it. In the caller's transaction."""
        first, arrival_ns = shard.last_sequence + 1, self._clock.next_ns()
        rows = ((shard.inode, first + count, arrival_ns, *record) for count, record in enumerate(new))
        self._database.execute_many(_APPEND, rows)
        self._nodes.touch(shard, last_sequence=shard.last_sequence + len(new))
        return first

    def read(self, shard: Node, first: int, most: int) -> Iterator[StoredRecord]:
        """From the sequence number `first` on."""
        return map(StoredRecord._make, self._database.execute(_READ, (shard.inode, first, most)))

    def arrival_ns(self, shard: Node, sequence: int) -> int:
        """When a record that is kept arrived, in nanoseconds since 1970."""
        row = self._database.row(_ARRIVAL, shard.inode, sequence)
        assert row is not None
        return int(row[0])

    def first_since(self, shard: Node, arrival_ns: int) -> int:
        """The oldest record's sequence number that arrived then or later; one above the last for none."""
        kept = range(shard.first_sequence, shard.last_sequence + 1)
        found = bisect_left(kept, arrival_ns, key=lambda sequence: self.arrival_ns(shard, sequence))
        return shard.first_sequence + found

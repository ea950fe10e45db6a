"""ShardRecords that are gone: too old, or of a shard that was deleted. They are deleted a few at a time."""

import time

from headrace.runtime.embedded.v3io.database import Database
from headrace.runtime.embedded.v3io.store.node import NANOSECONDS, Node
from headrace.runtime.embedded.v3io.store.records import ShardRecords

_MOST_AT_ONCE = 1000
_HOUR_NS = 3600 * NANOSECONDS
_DISCARD = (
    "INSERT INTO garbage (shard, below) VALUES (?, ?) "
    "ON CONFLICT (shard) DO UPDATE SET below = max(below, excluded.below)"
)


class Retention:
    """What is garbage is written down in the transaction that makes it so, and swept by later ones."""

    def __init__(self, database: Database, records: ShardRecords) -> None:
        self._database = database
        self._records = records

    def enforced(self, shard: Node, retention_hours: int) -> Node:
        """The shard without what is too old by now. In no transaction."""
        oldest_ns = time.time_ns() - retention_hours * _HOUR_NS
        first = shard.first_sequence
        if first > shard.last_sequence or self._records.arrival_ns(shard, first) >= oldest_ns:
            return shard
        kept = self._records.first_since(shard, oldest_ns)
        with self._database.transaction():
            self._database.execute("UPDATE nodes SET first_sequence = ? WHERE inode = ?", (kept, shard.inode))
            self._database.execute(_DISCARD, (shard.inode, kept))
            self.sweep()
        return shard._replace(first_sequence=kept)

    def discard(self, shard: Node) -> None:
        """All its records: it is deleted. In the caller's transaction."""
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
        if first is None or first >= below:
            self._database.execute("DELETE FROM garbage WHERE shard = ?", (shard,))
        else:
            self._database.execute(
                "DELETE FROM records WHERE shard = ? AND sequence < ?",
                (shard, min(below, first + _MOST_AT_ONCE)),
            )

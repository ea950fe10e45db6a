"""All of it, opened."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.runtime.embedded.v3io.database import Database, open_database
from headrace.runtime.embedded.v3io.store.address import Address
from headrace.runtime.embedded.v3io.store.clock import WriteClock
from headrace.runtime.embedded.v3io.store.node import NodeKind
from headrace.runtime.embedded.v3io.store.nodes import Nodes
from headrace.runtime.embedded.v3io.store.records import ShardRecords
from headrace.runtime.embedded.v3io.store.retention import Retention


@dataclass(frozen=True, slots=True)
class Store:
    """What every request works on. One thread's, and each call is done when it returns."""

    database: Database
    nodes: Nodes
    records: ShardRecords
    retention: Retention
    containers: frozenset[str]


def open_store(folder: Path, containers: Iterable[str]) -> Store:
    """The store in `folder`, with these containers. UsageError where the file can't be used."""
    database = open_database(folder)
    (last_ns,) = database.row("SELECT coalesce(max(mtime_ns), 0) FROM nodes") or (0,)
    clock, names = WriteClock(last_ns), frozenset(containers)
    nodes = Nodes(database, clock)
    for name in sorted(names):
        if nodes.find(Address("", name)) is None:
            nodes.make(Address("", name), NodeKind.DIRECTORY)
    records = ShardRecords(database, nodes, clock)
    return Store(database, nodes, records, Retention(database, records), names)

"""The database: one SQLite file, written to its log at each commit, which a kill -9 doesn't undo."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.runtime.errors import UsageError

_VERSION = 1
_FILE = "v3io.sqlite3"

# AUTOINCREMENT never gives a number again: locations and commits tell a shard from its successor by it.
_SCHEMA = """
CREATE TABLE nodes (
    inode INTEGER PRIMARY KEY AUTOINCREMENT,
    folder TEXT NOT NULL,
    name TEXT NOT NULL,
    kind INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    shard_count INTEGER NOT NULL DEFAULT 0,
    retention_hours INTEGER NOT NULL DEFAULT 0,
    first_sequence INTEGER NOT NULL DEFAULT 1,
    last_sequence INTEGER NOT NULL DEFAULT 0,
    attributes TEXT NOT NULL DEFAULT '{}',
    data BLOB NOT NULL DEFAULT x'',
    UNIQUE (folder, name)
);
CREATE TABLE records (
    shard INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    arrival_ns INTEGER NOT NULL,
    client_info BLOB,
    partition_key TEXT,
    data BLOB NOT NULL,
    PRIMARY KEY (shard, sequence)
) WITHOUT ROWID;
CREATE TABLE garbage (
    shard INTEGER PRIMARY KEY,
    below INTEGER NOT NULL
);
"""

Row = tuple[Any, ...]


class Database:
    """A connection to the database, owned by one thread. Its methods raise sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.execute = connection.execute
        self.execute_many = connection.executemany
        self.close = connection.close

    def row(self, query: str, *values: Any) -> Row | None:
        found: Row | None = self.execute(query, values).fetchone()
        return found

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all that is written inside, or nothing of it."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # SQLite may have rolled back itself
                self.execute("ROLLBACK")
            raise


def open_database(folder: Path) -> Database:
    """Open the database of `folder`, made where there is none. A half-written transaction is dropped.

    UsageError where it can't be used.
    """
    path = folder / _FILE
    try:
        return _opened(path)
    except sqlite3.Error as error:
        raise UsageError(
            f"{path} can't be used: {error}; stop who uses it, make room, or choose another data folder"
        ) from error


def _opened(path: Path) -> Database:
    # Refused at once where another server has the file, and keeps it locked. Transactions begin by hand.
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        # No other process has the file open, so WAL needs no memory that is shared with others.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        # A commit doesn't wait for the disk: it outlives the process, and may be lost with the power.
        connection.execute("PRAGMA synchronous = NORMAL")
        _prepare(Database(connection))
    except BaseException:
        connection.close()
        raise
    return Database(connection)


def _prepare(database: Database) -> None:
    (version,) = database.row("PRAGMA user_version") or (0,)
    if version not in {0, _VERSION}:
        raise sqlite3.DatabaseError(f"it has version {version}, and this Headrace knows {_VERSION}")
    if version == 0:
        # One transaction: a start that is killed in it leaves version 0, and the next one begins again.
        database.execute("BEGIN EXCLUSIVE")
        # One by one: executescript would commit the transaction first.
        for statement in _SCHEMA.split(";\n"):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {_VERSION}")
        database.execute("COMMIT")

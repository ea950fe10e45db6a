"""SQLAlchemy engines for SQLite and PostgreSQL, with the options that safe writes and bounded reads need."""

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

_BUSY_SECONDS = 30  # how long to wait for another worker's transaction on the same SQLite file
_CONNECT_SECONDS = 5
_MOST_SECONDS = "headrace_most_seconds"
"""Execution option of a connection: how long its transaction may take. Set before it begins."""
_STEPS_BETWEEN_CHECKS = 10_000  # of SQLite's virtual machine: some tenths of a millisecond
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "sqlite": {"timeout": _BUSY_SECONDS},
    # A server whose machine is gone is found within half a minute, not when TCP gives up.
    "postgresql": {
        "connect_timeout": _CONNECT_SECONDS,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
    },
}
MOST_SECONDS = 30.0
_CANCELLED = "57014"  # SQLSTATE query_canceled: the statement has timed out


def open_engine(url: str) -> sa.Engine:
    """Return the engine for `url`, as SQLAlchemy writes it: sqlite:///file, postgresql://user@host/database.

    Connects to nothing yet. Raises ValueError for another kind of database and for a text that is no address;
    the error never quotes the address, which may hold a password.
    """
    try:
        address = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise ValueError("that is no address of a database: sqlite:///FILE or postgresql://...") from None
    kind = address.get_backend_name()
    if kind not in _OPTIONS:
        raise ValueError(f"{kind} is no database for this; use sqlite or postgresql")
    # psycopg 3, which the extras bring; SQLAlchemy would take psycopg2 for a bare name.
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    engine = sa.create_engine(address, connect_args=dict(_OPTIONS[kind]))
    if kind == "sqlite":
        sa.event.listen(engine, "connect", _prepare)
        sa.event.listen(engine, "begin", _begin)
    else:
        sa.event.listen(engine, "begin", _limit_statements)
    return engine


def read_only(engine: sa.Engine) -> sa.Engine:
    """Return the same engine for transactions that only read. On SQLite no writer waits for them."""
    return engine.execution_options(headrace_reads=True, postgresql_readonly=True)


def _prepare(connection: Any, _: object) -> None:
    """Switch a new SQLite connection to write-ahead logging, so that readers don't wait for writers.

    `synchronous` stays FULL: what was acked survives a power cut.
    """
    connection.isolation_level = None  # or sqlite3 begins transactions itself, and none before DDL
    deadline = time.monotonic() + _BUSY_SECONDS
    while not _has_log(connection):  # of two that set up a new file, one gets SQLITE_BUSY at once
        if time.monotonic() > deadline:
            raise sqlite3.OperationalError("database is locked")
        time.sleep(0.01)


def _has_log(connection: Any) -> bool:
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


def _begin(connection: sa.Connection) -> None:
    """Begin a transaction on SQLite: with the write lock at once, unless it is declared to only read.

    A transaction that reads and then writes fails (SQLITE_BUSY) if another one has written in between.
    """
    options = connection.get_execution_options()
    connection.exec_driver_sql("BEGIN DEFERRED" if options.get("headrace_reads") else "BEGIN IMMEDIATE")
    seconds = options.get(_MOST_SECONDS)
    until = None if seconds is None else time.monotonic() + seconds
    driver: Any = connection.connection.driver_connection
    # SQLite has no timeout for statements. The handler is called every so many steps of its machine, and
    # a true answer ends the statement. Setting None clears what an earlier transaction of it has set.
    driver.set_progress_handler(until and (lambda: time.monotonic() > until), _STEPS_BETWEEN_CHECKS)


def _limit_statements(connection: sa.Connection) -> None:
    """Limit the time of each statement of a transaction on PostgreSQL."""
    if (seconds := connection.get_execution_options().get(_MOST_SECONDS)) is not None:
        # LOCAL: the pool gives the connection to others once this transaction has ended.
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}")


class TooLongError(Exception):
    """A read took longer than it may and was ended. The message is one line for whoever asked."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"that takes longer than {seconds:g} s to read: ask for less")


class BoundedRead:
    """The statements of one read-only transaction, which share a limit of so many seconds."""

    def __init__(self, connection: sa.Connection, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self._until = time.monotonic() + seconds

    def rows(self, query: Any) -> Sequence[sa.RowMapping]:
        """Return all rows of `query`, which has a LIMIT of its own. Raises TooLongError."""
        # PostgreSQL bounds each statement: what all of them take together is checked between them.
        if time.monotonic() > self._until:
            raise TooLongError(self._seconds)
        return self._connection.execute(query).mappings().all()


@contextmanager
def bounded_read(engine: sa.Engine, seconds: float | None = None) -> Iterator[BoundedRead]:
    """Open a read-only transaction that is ended after `seconds`, by default MOST_SECONDS.

    Raises TooLongError, and SQLAlchemy's errors.
    """
    seconds = MOST_SECONDS if seconds is None else seconds
    try:
        with read_only(engine).connect() as connection:
            connection.execution_options(headrace_most_seconds=seconds)
            yield BoundedRead(connection, seconds)
    except sa.exc.DBAPIError as error:
        if not _is_timeout(error.orig):
            raise
        raise TooLongError(seconds) from None


def _is_timeout(cause: Any) -> bool:
    """Whether a driver's error says that the time limit has ended a statement."""
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
    return getattr(cause, "sqlstate", None) == _CANCELLED

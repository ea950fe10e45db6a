"""A database by its address, with what it takes to write to it safely."""

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

_BUSY_SECONDS = 30  # another worker's transaction on the same SQLite file


_CONNECT_SECONDS = 5


_MOST_SECONDS = "headrace_most_seconds"


"""An option of a connection, before its transaction begins."""


_STEPS_BETWEEN_LOOKS = 10_000  # of SQLite's machine: some tenths of a millisecond


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


def open_engine(url: str) -> sa.Engine:
    """`url` is SQLAlchemy's: sqlite:///file, postgresql://user@host/database. Connects to nothing yet.

    Raises ValueError for any other database, or what is no address, without saying a password.
    """
    try:
        address = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise ValueError("that is no address of a database: sqlite:///FILE or postgresql://...") from None
    kind = address.get_backend_name()
    if kind not in _OPTIONS:
        raise ValueError(f"{kind} is no database for this; use sqlite or postgresql")
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    engine = sa.create_engine(address, connect_args=dict(_OPTIONS[kind]))
    if kind == "sqlite":
        sa.event.listen(engine, "connect", _prepare)
        sa.event.listen(engine, "begin", _begin)
    else:
        sa.event.listen(engine, "begin", _bound)
    return engine


def read_only(engine: sa.Engine) -> sa.Engine:
    """The same database, for transactions that only read. On SQLite no writer waits for them."""
    return engine.execution_options(headrace_reads=True, postgresql_readonly=True)


def _prepare(connection: Any, _: object) -> None:
    """Readers don't wait for writers. `synchronous` stays FULL: what was acked survives a power cut."""
    connection.isolation_level = None  # or Python begins transactions by itself, and not before DDL
    deadline = time.monotonic() + _BUSY_SECONDS
    while not _has_log(connection):  # of two that set up a new file at once, one is refused without a wait
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
    """At once for writing. Whoever reads first and writes then fails where another one writes meanwhile."""
    options = connection.get_execution_options()
    connection.exec_driver_sql("BEGIN DEFERRED" if options.get("headrace_reads") else "BEGIN IMMEDIATE")
    seconds = options.get(_MOST_SECONDS)
    until = None if seconds is None else time.monotonic() + seconds
    driver: Any = connection.connection.driver_connection
    driver.set_progress_handler(until and (lambda: time.monotonic() > until), _STEPS_BETWEEN_LOOKS)


def _bound(connection: sa.Connection) -> None:
    """Each statement of the transaction ends in time."""
    if (seconds := connection.get_execution_options().get(_MOST_SECONDS)) is not None:
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}")


MOST_SECONDS = 30.0


_CANCELLED = "57014"  # PostgreSQL's word for a statement that took too long


class TooLongError(Exception):
    """BoundedRead was ended. One line for whoever asked."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"that takes longer than {seconds:g} s to read: ask for less")


class BoundedRead:
    """Statements of one transaction, which have so many seconds together."""

    def __init__(self, connection: sa.Connection, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self._until = time.monotonic() + seconds

    def rows(self, query: Any) -> Sequence[sa.RowMapping]:
        """All of them: a query has its own limit. Raises TooLongError."""
        if time.monotonic() > self._until:
            raise TooLongError(self._seconds)
        return self._connection.execute(query).mappings().all()


@contextmanager
def bounded_read(engine: sa.Engine, seconds: float | None = None) -> Iterator[BoundedRead]:
    """Raises TooLongError, and SQLAlchemy's errors. By default it has MOST_SECONDS."""
    seconds = MOST_SECONDS if seconds is None else seconds
    try:
        with read_only(engine).connect() as connection:
            connection.execution_options(headrace_most_seconds=seconds)
            yield BoundedRead(connection, seconds)
    except sa.exc.DBAPIError as error:
        if not _is_an_end(error.orig):
            raise
        raise TooLongError(seconds) from None


def _is_an_end(cause: Any) -> bool:
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
    return getattr(cause, "sqlstate", None) == _CANCELLED

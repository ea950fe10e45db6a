"""What is read for somebody who waits: it ends in time, whatever was asked for."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from headrace.functions.database.engine import read_only

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

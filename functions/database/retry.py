"""Writes that are retried for as long as the database can't be reached."""

import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from headrace.functions.retry import retry_until_done

# Errors about the content of rows, which a retry would meet again.
_CONTENT_ERRORS = (sa.exc.DataError, sa.exc.IntegrityError)


def retry_write(
    write: Callable[[], object], logger: Any, sleep: Callable[[float], object] = time.sleep
) -> None:
    """Call `write` until it succeeds. Blocks.

    Raises errors about the rows themselves (DataError, IntegrityError), which a retry would meet again.
    """
    retry_until_done(
        write, _describe_outage, "the database can't be written to: its messages wait", logger, sleep
    )


def error_text(error: sa.exc.SQLAlchemyError) -> str:
    """Return the database's own message in one line, without the statement and its rows."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return " ".join(str(cause).split())


def _describe_outage(error: Exception) -> str | None:
    """Return the message of an error that a later attempt may not meet, or None for one about the rows."""
    # A mistake in the code isn't an outage either: it has to fail its message, not hold it up forever.
    if not isinstance(error, sa.exc.SQLAlchemyError) or isinstance(error, _CONTENT_ERRORS):
        return None
    return error_text(error)

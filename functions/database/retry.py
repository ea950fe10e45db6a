"""Wait for a database that is away, for however long that is."""

import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from headrace.functions.retry import retry_until_done

# What these say is of the rows. Writing them again says the same.
_OF_THE_ROWS = (sa.exc.DataError, sa.exc.IntegrityError)


def retry_write(
    write: Callable[[], object], logger: Any, sleep: Callable[[float], object] = time.sleep
) -> None:
    """Until it has been written. Raises what is wrong with the rows themselves."""
    retry_until_done(write, _away, "the database can't be written to: its messages wait", logger, sleep)


def error_text(error: sa.exc.SQLAlchemyError) -> str:
    """By the database, in one line, without the statement and its rows."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return " ".join(str(cause).split())


def _away(error: Exception) -> str | None:
    if not isinstance(error, sa.exc.SQLAlchemyError) or isinstance(error, _OF_THE_ROWS):
        return None
    return error_text(error)

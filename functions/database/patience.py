"""Wait for a database that is away, for however long that is."""

import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
# What these say is of the rows. Writing them again says the same.
_OF_THE_ROWS = (sa.exc.DataError, sa.exc.IntegrityError)


def patiently(
    write: Callable[[], object], logger: Any, sleep: Callable[[float], object] = time.sleep
) -> None:
    """Until it has been written: nothing is acked before, and what comes behind it waits.

    A failed call would spend one of the messages' attempts: an outage of a minute is no fault of theirs.
    Raises what is wrong with the rows themselves.
    """
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            write()
        except _OF_THE_ROWS:
            raise
        except sa.exc.SQLAlchemyError as error:
            logger.warn_with("the database can't be written to: its messages wait", error=said_by(error))
            sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        else:
            return


def said_by(error: sa.exc.SQLAlchemyError) -> str:
    """By the database, in one line, without the statement and its rows."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return " ".join(str(cause).split())

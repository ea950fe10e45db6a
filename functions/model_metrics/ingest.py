"""A batch of messages into rows, and the rows into the database, however long that is away."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any

import sqlalchemy as sa

from headrace.functions.events import Event
from headrace.functions.model_metrics.messages.extraction import Ignored, ResponseRow, extract
from headrace.functions.model_metrics.messages.feedback import FeedbackRow, extract_feedback
from headrace.functions.model_metrics.messages.topics import ModelTopics
from headrace.functions.model_metrics.store.writer import IgnoredRow, Rows

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
# What these say is of the rows. Writing them again says the same.
_OF_THE_ROWS = (sa.exc.DataError, sa.exc.IntegrityError)


def rows_of(events: Sequence[Event], topics: ModelTopics, feedback_topic: str) -> Rows:
    """Each event is in one of them."""
    responses: list[ResponseRow] = []
    feedback: list[FeedbackRow] = []
    ignored: list[IgnoredRow] = []
    for event in events:
        found = extract_feedback(event) if event.topic == feedback_topic else extract(event, topics)
        match found:
            case ResponseRow():
                responses.append(found)
            case FeedbackRow():
                feedback.append(found)
            case Ignored():
                ignored.append(_ignored(event, found))
    return Rows(responses, feedback, ignored)


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


def _ignored(event: Event, reason: Ignored) -> IgnoredRow:
    at = event.timestamp
    milliseconds = -1 if at is None else round(at.replace(tzinfo=UTC).timestamp() * 1000)
    return IgnoredRow(event.topic, event.shard_id, event.offset, milliseconds, reason)


def said_by(error: sa.exc.SQLAlchemyError) -> str:
    """By the database, in one line, without the statement and its rows."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return " ".join(str(cause).split())

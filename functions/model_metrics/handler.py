"""The handler of model_metrics, called by three triggers: to store messages, to sum up, to answer requests.

A batch of messages is acked by returning, which comes after its transaction.
"""

import os
from collections.abc import Sequence
from datetime import UTC
from typing import Any

import sqlalchemy as sa

from headrace.functions.database.engine import TooLongError, open_engine
from headrace.functions.database.retry import error_text, retry_write
from headrace.functions.database.schema import migrate
from headrace.functions.events import Event
from headrace.functions.model_metrics.messages.feedback import FeedbackRow, extract_feedback
from headrace.functions.model_metrics.messages.responses import (
    Ignored,
    ModelTopics,
    ResponseRow,
    extract_response,
)
from headrace.functions.model_metrics.settings import read_settings
from headrace.functions.model_metrics.store.tables import MIGRATIONS
from headrace.functions.model_metrics.store.writer import IgnoredRow, Rows, Writer
from headrace.functions.model_metrics.web.metrics_reader import MetricsReader
from headrace.functions.model_metrics.web.routes import error_response, respond


def rows_of(events: Sequence[Event], topics: ModelTopics, feedback_topic: str) -> Rows:
    """Return the rows of a batch: each event is one response, one feedback or one ignored message."""
    responses: list[ResponseRow] = []
    feedback: list[FeedbackRow] = []
    ignored: list[IgnoredRow] = []
    for event in events:
        found = extract_feedback(event) if event.topic == feedback_topic else extract_response(event, topics)
        match found:
            case ResponseRow():
                responses.append(found)
            case FeedbackRow():
                feedback.append(found)
            case Ignored():
                ignored.append(_ignored(event, found))
    return Rows(responses, feedback, ignored)


def _ignored(event: Event, reason: Ignored) -> IgnoredRow:
    at = event.timestamp
    # The time is part of a key, which has no nulls: -1 stands for none. Events have naive times in UTC.
    milliseconds = -1 if at is None else round(at.replace(tzinfo=UTC).timestamp() * 1000)
    return IgnoredRow(event.topic, event.shard_id, event.offset, milliseconds, reason)


def init_context(context: Any) -> None:
    """Check all settings, then migrate the database, which may take until it can be reached."""
    data, settings = context.user_data, read_settings(os.environ)
    data.topics, data.feedback_topic = ModelTopics(settings.topic_prefix), settings.feedback_topic
    data.engine = open_engine(settings.database)
    # Retried, as the database may start later than this worker: an exception here would end `headrace run`.
    retry_write(lambda: migrate(data.engine, MIGRATIONS), context.logger)
    data.writer, data.answers = Writer(data.engine), MetricsReader(data.engine)


def handler(context: Any, event: Any) -> Any:
    """Handle a batch of messages (a list), a firing of the cron trigger, or an HTTP request."""
    # Only the Kafka trigger has batches, so only its events come as a list.
    if isinstance(event, list):
        return _store(context, event)
    if event.trigger.kind == "cron":
        return _sum_up(context)
    return _answer(context, event)


def _store(context: Any, events: Sequence[Event]) -> None:
    """Write a batch in one transaction. Messages that are redelivered have their rows already."""
    data = context.user_data
    rows = rows_of(events, data.topics, data.feedback_topic)
    retry_write(lambda: data.writer.write(rows), context.logger)


def _sum_up(context: Any) -> None:
    # Imported here: only this trigger needs Spark.
    from headrace.functions.model_metrics.metrics.job import bring_up_to_date

    minutes = bring_up_to_date(context.spark, context.user_data.engine)
    context.logger.debug_with("summed up", minutes=minutes)


def _answer(context: Any, event: Any) -> Any:
    try:
        found = respond(context.user_data.answers, event.method, event.path, event.fields)
    except TooLongError as error:
        context.logger.warn_with("a request takes too long to answer: it gets 503", path=event.path[:200])
        found = error_response(503, str(error))
    # Not retried, unlike a write: an HTTP client waits, and the page asks again by itself.
    except sa.exc.SQLAlchemyError as error:
        context.logger.warn_with("the database can't be read: a request gets 503", error=error_text(error))
        found = error_response(503, "the database is away")
    return context.Response(
        body=found.body,
        headers=dict(found.headers),
        content_type=found.content_type,
        status_code=found.status,
    )

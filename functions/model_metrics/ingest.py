"""A batch of messages into rows."""

from collections.abc import Sequence
from datetime import UTC

from headrace.functions.events import Event
from headrace.functions.model_metrics.messages.extraction import Ignored, ResponseRow, extract_response
from headrace.functions.model_metrics.messages.feedback import FeedbackRow, extract_feedback
from headrace.functions.model_metrics.messages.topics import ModelTopics
from headrace.functions.model_metrics.store.writer import IgnoredRow, Rows


def rows_of(events: Sequence[Event], topics: ModelTopics, feedback_topic: str) -> Rows:
    """Each event is in one of them."""
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
    milliseconds = -1 if at is None else round(at.replace(tzinfo=UTC).timestamp() * 1000)
    return IgnoredRow(event.topic, event.shard_id, event.offset, milliseconds, reason)

"""What a model should have answered, as its users say it later."""

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from headrace.functions.events import Event
from headrace.functions.model_metrics.messages.predictions import label_of
from headrace.functions.model_metrics.messages.responses import Ignored
from headrace.functions.model_metrics.messages.storable import is_storable


class Kind(StrEnum):
    """Of a model's answers."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"


@dataclass(frozen=True, slots=True)
class FeedbackRow:
    """The truth about one prediction, named as the columns of its table. A later one replaces it."""

    namespace: str
    model_name: str
    pipeline_name: str
    request_id: str
    batch_index: int
    """Which of a request's predictions, from 0."""
    kind: Kind
    label: str | None
    """Of a classification."""
    number: float | None
    """Of a regression."""
    feedback_timestamp: datetime
    topic: str
    partition: int
    offset: int


def extract_feedback(event: Event) -> FeedbackRow | Ignored:
    """Of a message in JSON, with the fields of the module's own API. Never raises for what one may write.

    {"namespace": "ns", "pipelineName": "p", "modelName": "iris", "requestId": "abc", "batchId": 0,
     "feedback": {"classificationFeedback": {"value": 2}}}     or {"regressionFeedback": {"value": 0.5}}
    """
    if event.timestamp is None:
        return Ignored.NO_TIMESTAMP
    if event.body is None:
        return Ignored.NO_VALUE
    try:
        said = json.loads(event.body)
        kind, value = _truth(said["feedback"])
        return FeedbackRow(
            namespace=_text(said["namespace"]),
            model_name=_text(said["modelName"]),
            pipeline_name=_text(said["pipelineName"]),
            request_id=_text(said["requestId"]),
            batch_index=_index(said.get("batchId")),
            kind=kind,
            label=label_of(value) if kind is Kind.CLASSIFICATION else None,
            number=_number(value) if kind is Kind.REGRESSION else None,
            feedback_timestamp=event.timestamp.replace(tzinfo=UTC),
            topic=event.topic,
            partition=event.shard_id,
            offset=event.offset,
        )
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
        return Ignored.BAD_FEEDBACK


def _truth(feedback: Any) -> tuple[Kind, Any]:
    """One of the two, and not both."""
    given = {kind: feedback[f"{kind}Feedback"] for kind in Kind if f"{kind}Feedback" in feedback}
    ((kind, said),) = given.items()
    return kind, said["value"]


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or not is_storable(value):
        raise ValueError("no text")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("no number")
    return float(value)


def _index(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError("no index")
    return value

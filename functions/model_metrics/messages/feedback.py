"""Feedback messages: the true class or number of an earlier prediction."""

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
    """The two kinds of predictions, named as in the JSON of Seldon's feedback API."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"


@dataclass(frozen=True, slots=True)
class FeedbackRow:
    """The true value of one prediction. Fields are named as the table's columns.

    Feedback with a later time replaces an earlier one for the same prediction.
    """

    namespace: str
    model_name: str
    pipeline_name: str
    request_id: str
    batch_index: int
    """Index of the prediction among those of the request, from 0."""
    kind: Kind
    label: str | None
    """The true class; None for a regression."""
    number: float | None
    """The true number; None for a classification."""
    feedback_timestamp: datetime
    topic: str
    partition: int
    offset: int


def extract_feedback(event: Event) -> FeedbackRow | Ignored:
    """Parse a message in the JSON of Seldon's feedback API, or return why it is ignored.

        {"namespace": "ns", "pipelineName": "p", "modelName": "iris", "requestId": "abc", "batchId": 0,
         "feedback": {"classificationFeedback": {"value": 2}}}     or {"regressionFeedback": {"value": 0.5}}

    Never raises for the content of a message.
    """
    if event.timestamp is None:
        return Ignored.NO_TIMESTAMP
    if event.body is None:
        return Ignored.NO_VALUE
    try:
        document = json.loads(event.body)
        kind, value = _truth(document["feedback"])
        return FeedbackRow(
            namespace=_text(document["namespace"]),
            model_name=_text(document["modelName"]),
            pipeline_name=_text(document["pipelineName"]),
            request_id=_text(document["requestId"]),
            # May be missing: a request with one prediction needs no index.
            batch_index=_index(document.get("batchId")),
            kind=kind,
            label=label_of(value) if kind is Kind.CLASSIFICATION else None,
            number=_number(value) if kind is Kind.REGRESSION else None,
            feedback_timestamp=event.timestamp.replace(tzinfo=UTC),
            topic=event.topic,
            partition=event.shard_id,
            offset=event.offset,
        )
    # Whatever is missing or of another type: what a producer writes must not stop the partition.
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
        return Ignored.BAD_FEEDBACK


def _truth(feedback: Any) -> tuple[Kind, Any]:
    """Return the kind and the value of feedback that has exactly one of both kinds."""
    truths = {kind: feedback[f"{kind}Feedback"] for kind in Kind if f"{kind}Feedback" in feedback}
    # Raises ValueError for neither and for both.
    ((kind, truth),) = truths.items()
    return kind, truth["value"]


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or not is_storable(value):
        raise ValueError("no text")
    return value


def _number(value: object) -> float:
    # bool is a subclass of int. NaN and Infinity, which Python's JSON reader accepts, would spoil all sums of
    # their minute.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("no number")
    return float(value)


def _index(value: object) -> int:
    if value is None:
        return 0
    # 2**31: the column is a 32-bit integer on PostgreSQL.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError("no index")
    return value

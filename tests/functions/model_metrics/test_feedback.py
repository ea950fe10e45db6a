"""Feedback messages: how they are read, and which are ignored."""

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.functions.model_metrics.messages.feedback import FeedbackRow, Kind, extract_feedback
from headrace.functions.model_metrics.messages.responses import Ignored

AT = datetime(2026, 5, 17, 12, 30, 1, 250_000)  # noqa: DTZ001  # as events have it


@dataclass(frozen=True)
class Message:
    """As a function sees it."""

    body: bytes | None
    timestamp: datetime | None = AT
    key: bytes | None = None
    topic: str = "model-feedback"
    shard_id: int = 1
    offset: int = 7
    header_list: tuple[tuple[str, bytes | None], ...] = ()


def said(feedback: Any, **changes: Any) -> bytes:
    names = {"namespace": "ns1", "pipelineName": "p", "modelName": "iris", "requestId": "abc"}
    return json.dumps(names | {"feedback": feedback} | changes).encode()


def classified(value: Any) -> dict[str, Any]:
    return {"classificationFeedback": {"value": value}}


def measured(value: Any) -> dict[str, Any]:
    return {"regressionFeedback": {"value": value}}


def row(body: bytes) -> FeedbackRow:
    found = extract_feedback(Message(body))
    assert isinstance(found, FeedbackRow), found
    return found


def test_a_row_has_all_that_is_said() -> None:
    assert row(said(classified(2), batchId=3)) == FeedbackRow(
        namespace="ns1",
        model_name="iris",
        pipeline_name="p",
        request_id="abc",
        batch_index=3,
        kind=Kind.CLASSIFICATION,
        label="2",
        number=None,
        feedback_timestamp=AT.replace(tzinfo=UTC),
        topic="model-feedback",
        partition=1,
        offset=7,
    )


@pytest.mark.parametrize(
    ("value", "label"), [(1, "1"), (1.0, "1"), ("1", "1"), ("setosa", "setosa"), (True, "true"), (0.5, "0.5")]
)
def test_a_class_is_named_the_same_however_it_is_written(value: Any, label: str) -> None:
    assert row(said(classified(value))).label == label


def test_a_regression_has_a_number_and_its_request_one_prediction() -> None:
    found = row(said(measured(1)))
    assert (found.kind, found.label, found.number, found.batch_index) == ("regression", None, 1.0, 0)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        said({}),
        said([]),
        said(None),
        said({**classified(1), **measured(1)}),
        said({"classificationFeedback": 1}),
        said({"classificationFeedback": {}}),
        said(classified(None)),
        said(classified([1])),
        said(classified("\0")),
        said(measured("1")),
        said(measured(True)),
        said(measured(math.nan)),
        said(classified(1), batchId=-1),
        said(classified(1), batchId="1"),
        said(classified(1), batchId=2**31),
        said(classified(1), requestId=""),
        said(classified(1), requestId=7),
        said(classified(1), modelName=None),
        said(classified(1), namespace="\0"),
    ],
)
def test_what_is_no_feedback_is_ignored(body: bytes) -> None:
    assert extract_feedback(Message(body)) == Ignored.BAD_FEEDBACK


def test_a_tombstone_and_a_message_without_a_time_have_their_own_reasons() -> None:
    assert extract_feedback(Message(None)) == Ignored.NO_VALUE
    assert extract_feedback(Message(said(classified(1)), timestamp=None)) == Ignored.NO_TIMESTAMP


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@given(json_values, json_values, json_values)
def test_whatever_is_written_is_a_row_or_ignored(value: Any, feedback: Any, index: Any) -> None:
    for body in (said(classified(value), batchId=index), said(measured(value)), said(feedback)):
        assert isinstance(extract_feedback(Message(body)), FeedbackRow | Ignored)

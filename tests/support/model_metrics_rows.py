"""Rows of functions/model_metrics that tests change to what they need."""

from datetime import UTC, datetime

from inference_responses import as_json

from headrace.functions.model_metrics.messages.feedback import FeedbackRow, Kind
from headrace.functions.model_metrics.messages.payload import ContentType
from headrace.functions.model_metrics.messages.responses import ResponseRow

AT = datetime(2026, 5, 17, 12, 30, 1, 250_000, tzinfo=UTC)
RESPONSE = ResponseRow(
    namespace="ns1",
    model_name="iris",
    model_version="1",
    pipeline_name="iris-pipeline",
    inference_response_id="abc",
    request_id=None,
    response_timestamp=AT,
    content_type=ContentType.JSON,
    payload=as_json() + b"\x00\xff",
    payload_json=as_json().decode(),
    topic="seldon.ns1.model.iris.outputs",
    partition=3,
    offset=2**40,
)
TRUTH = FeedbackRow(
    namespace="ns1",
    model_name="iris",
    pipeline_name="iris-pipeline",
    request_id="abc",
    batch_index=0,
    kind=Kind.CLASSIFICATION,
    label="2",
    number=None,
    feedback_timestamp=AT,
    topic="model-feedback",
    partition=0,
    offset=7,
)

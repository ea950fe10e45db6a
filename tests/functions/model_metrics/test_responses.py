"""Inference responses as rows, and messages that are ignored, by reason."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inference_responses import as_json

from headrace.functions.model_metrics.messages.payload import ContentType
from headrace.functions.model_metrics.messages.responses import (
    Ignored,
    ModelTopics,
    ResponseRow,
    extract_response,
)

TOPICS = ModelTopics("seldon")
AT = datetime(2026, 5, 17, 12, 30, 1, 250_000)  # noqa: DTZ001  # as events have it


@dataclass(frozen=True)
class Message:
    """As a function sees it."""

    topic: str = "seldon.ns1.model.iris.outputs"
    shard_id: int = 3
    offset: int = 41
    key: bytes | None = b"abc"
    body: bytes | None = field(default_factory=as_json)
    header_list: tuple[tuple[str, bytes | None], ...] = (("pipeline", b"iris-pipeline"),)
    timestamp: datetime | None = AT


def row(message: Message) -> ResponseRow:
    found = extract_response(message, TOPICS)
    assert isinstance(found, ResponseRow), found
    return found


def test_a_row_has_all_that_a_message_says() -> None:
    assert row(Message()) == ResponseRow(
        namespace="ns1",
        model_name="iris",
        model_version="1",
        pipeline_name="iris-pipeline",
        inference_response_id="abc",
        request_id=None,
        response_timestamp=AT.replace(tzinfo=UTC),
        content_type=ContentType.JSON,
        payload=as_json(),
        payload_json=as_json().decode(),
        topic="seldon.ns1.model.iris.outputs",
        partition=3,
        offset=41,
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"topic": "seldon.ns1.pipeline.p.outputs"}, "topic"),
        ({"header_list": ()}, "no_pipeline"),
        ({"header_list": (("Pipeline", b"p"), ("x-pipeline", b"p"))}, "no_pipeline"),
        ({"header_list": (("pipeline", b""),)}, "empty_pipeline"),
        ({"header_list": (("pipeline", None),)}, "empty_pipeline"),
        ({"header_list": (("pipeline", b"first"), ("pipeline", b""))}, "empty_pipeline"),
        ({"header_list": (("pipeline", b"\xff"),)}, "bad_pipeline"),
        ({"header_list": (("pipeline", b"a\x00"),)}, "bad_pipeline"),
        ({"key": None}, "no_key"),
        ({"key": b""}, "no_key"),
        ({"key": b"\xc3("}, "bad_key"),
        ({"key": b"a\x00b"}, "bad_key"),
        ({"timestamp": None}, "no_timestamp"),
        ({"body": None}, "no_value"),
    ],
)
def test_what_cannot_be_extracted_is_ignored_by_its_reason(changes: dict[str, Any], reason: str) -> None:
    assert extract_response(replace(Message(), **changes), TOPICS) == Ignored(reason)


def test_every_reason_is_one_word_of_a_metric() -> None:
    assert all(reason.replace("_", "").isalpha() for reason in Ignored)


def test_a_response_that_cannot_be_decoded_is_stored_all_the_same() -> None:
    found = row(replace(Message(), body=b"garbage"))
    assert (found.content_type, found.payload, found.payload_json) == (ContentType.UNKNOWN, b"garbage", None)


def test_an_empty_value_is_no_tombstone() -> None:
    assert row(replace(Message(), body=b"")).payload == b""


def test_the_last_pipeline_counts() -> None:
    headers = (("pipeline", b"first"), ("other", b"x"), ("pipeline", b"last"))
    assert row(replace(Message(), header_list=headers)).pipeline_name == "last"


@pytest.mark.parametrize(
    ("key", "header", "request_id"),
    [
        (b"abc", None, None),
        (b"abc", b"from-header", "from-header"),
        (b"2.iris-pipeline.cfu1", None, "cfu1"),
        (b"2.iris-pipeline.with.dots", None, "with.dots"),
        (b"2.iris-pipeline.cfu1", b"from-header", "from-header"),
        (b"2.iris-pipeline.cfu1", b"\xff", "cfu1"),
        (b"2.iris-pipeline.", None, None),
        (b"2.other.cfu1", None, None),
        (b"x.iris-pipeline.cfu1", None, None),
    ],
)
def test_the_request_is_known_by_its_header_or_by_a_composite_key(
    key: bytes, header: bytes | None, request_id: str | None
) -> None:
    headers: tuple[tuple[str, bytes | None], ...] = (("pipeline", b"iris-pipeline"),)
    headers += (("x-request-id", header),) if header else ()
    found = row(replace(Message(), key=key, header_list=headers))
    assert (found.inference_response_id, found.request_id) == (key.decode(), request_id)


@given(
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=40),
    st.lists(
        st.tuples(st.sampled_from(["pipeline", "x-request-id", "h"]), st.none() | st.binary(max_size=9))
    ),
)
def test_whatever_is_written_is_a_row_or_has_a_reason(
    key: bytes | None, body: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    found = extract_response(replace(Message(), key=key, body=body, header_list=tuple(headers)), TOPICS)
    assert isinstance(found, ResponseRow | Ignored)

"""Query parameters: how they are read, and what is wrong with them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.functions.model_metrics.web.query import MOST_PARTS, QueryError, read_query

NOW = datetime(2026, 5, 17, 12, 30, 20, tzinfo=UTC)


def test_the_last_hour_is_asked_for_where_nothing_is_said() -> None:
    found = read_query({}, NOW)
    assert (found.start, found.end) == (datetime(2026, 5, 17, 11, 30, tzinfo=UTC), NOW)
    assert found.interval == timedelta(minutes=1)
    assert len(found.parts) == 61


def test_a_question_names_its_model() -> None:
    fields = {"namespace": "ns", "modelName": "m", "modelVersion": "", "pipelineName": "p"}
    columns = {"namespace": "ns", "model_name": "m", "model_version": "", "pipeline_name": "p"}
    assert read_query(fields, NOW).filters == columns


@pytest.mark.parametrize("text", ["2026-05-17T10:00:00Z", "2026-05-17T12:00:00 02:00", "2026-05-17T10:00:00"])
def test_times_may_have_zones(text: str) -> None:
    assert read_query({"startTime": text}, NOW).start == datetime(2026, 5, 17, 10, tzinfo=UTC)


@pytest.mark.parametrize(("text", "minutes"), [("5m", 5), ("1h30m", 90), ("120s", 2), ("0.5h", 30)])
def test_intervals_are_written_as_in_go(text: str, minutes: int) -> None:
    assert read_query({"interval": text}, NOW).interval == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": "m"}, "model is no parameter; there are endTime, interval, modelName"),
        ({"modelName": ["a", "b"]}, "modelName is there more than once: give it once"),
        ({"interval": ["1m", "1m"]}, "interval is there more than once: give it once"),
        ({"startTime": "noon"}, "startTime is no time; write it like 2026-05-17T12:30:00Z"),
        ({"endTime": "2026-13-01"}, "endTime is no time"),
        ({"startTime": "2026-05-18"}, "startTime has to be before endTime"),
        ({"interval": "soon"}, "interval is no duration; write it like 5m or 1h30m"),
        ({"interval": "90s"}, "interval has to be whole minutes"),
        ({"interval": "0m"}, "interval has to be whole minutes"),
        ({"interval": f"{10**15}h"}, "interval is too long"),
        ({"startTime": "0001-01-01T00:00:00+14:00"}, "startTime is no time"),
        ({"endTime": "9999-12-31T23:59:59-14:00"}, "endTime is no time"),
        ({"endTime": "0001-01-01T00:00:00Z"}, "startTime has to be before endTime"),
        ({"modelName": "a\0"}, "modelName has a character that no name has"),
        ({"namespace": "\ud800"}, "namespace has a character that no name has"),
        ({"startTime": "2026-05-16", "interval": "1m"}, "interval has to be 22m or more: at most 100 parts"),
    ],
)
def test_a_question_that_cannot_be_answered_gets_one_line(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        read_query(fields, NOW)


@given(st.integers(1, 10**8), st.integers(0, 10**6))
def test_every_time_is_in_one_of_at_most_a_hundred_parts(seconds: int, at: int) -> None:
    start = NOW - timedelta(seconds=seconds)
    question = read_query({"startTime": start.isoformat()}, NOW)
    assert len(question.parts) <= MOST_PARTS + 1
    time = question.start + timedelta(seconds=at % max(1, int((NOW - question.start).total_seconds())))
    assert question.part_of(time) in question.parts

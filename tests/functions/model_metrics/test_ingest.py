"""The handler: every message is a row or is counted, once, and a database that is away costs nothing."""

import json
import sqlite3
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_responses import as_json, framed, protobuf
from postgresql import PostgreSQL

from headrace.functions.database.engine import open_engine
from headrace.functions.database.retry import retry_write
from headrace.functions.model_metrics import handler as function
from headrace.functions.model_metrics.settings import SettingsError, read_settings
from headrace.functions.model_metrics.store.tables import FEEDBACK, IGNORED, RESPONSES
from headrace.testing import Record, TrialResult, run_handler

TOPIC = "seldon.ns1.model.iris.outputs"
AT = datetime(2026, 5, 17, 12, 30, 1, 250_000, tzinfo=UTC)
PIPELINE = (("pipeline", b"p"),)


def record(offset: int, **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "body": as_json(),
        "key": b"abc",
        "topic": TOPIC,
        "offset": offset,
        "headers": PIPELINE,
        "timestamp_ms": round(AT.timestamp() * 1000) + offset,
    }
    return Record(**fields | changes)


def handle(records: list[Record]) -> TrialResult:
    run = run_handler(function.handler, records, init_context=function.init_context, is_batch=True)
    run.context.user_data.engine.dispose()
    return run


@pytest.fixture
def database(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The function's own."""
    monkeypatch.setenv("DATABASE_URL", url)
    return url


def stored(url: str, *columns: sa.Column[Any]) -> list[tuple[Any, ...]]:
    engine = open_engine(url)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(sa.select(*columns).order_by(columns[0]))]
    engine.dispose()
    return found


def test_a_mixed_batch_is_rows_and_reasons_and_comes_again_without_doubles(database: str) -> None:
    good = [as_json(), protobuf(), framed(protobuf(is_raw=True)), b"garbage"]
    records = [record(offset, body=good[offset % 4]) for offset in range(40)]
    bad: list[dict[str, Any]] = [
        {"headers": ()},
        {"headers": (("pipeline", b""),)},
        {"key": None},
        {"key": b"\xc3("},
        {"body": None},
        {"topic": "seldon.ns1.errors.errors"},
        {"topic": "model-feedback", "body": b"{}"},
    ]
    records += [record(40 + place, **changes) for place, changes in enumerate(bad)]
    for part in (records, records[10:], records):
        assert handle(part).failures == []
    content_types = [row[1] for row in stored(database, RESPONSES.c.offset, RESPONSES.c.content_type)]
    assert content_types == ["json", "proto", "proto+sr", "unknown"] * 10
    reasons = Counter(row[1] for row in stored(database, IGNORED.c.offset, IGNORED.c.reason))
    assert reasons == Counter(
        ["no_pipeline", "empty_pipeline", "no_key", "bad_key", "no_value", "topic", "bad_feedback"]
    )


def test_feedback_comes_from_a_topic_of_its_own(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEEDBACK_TOPIC", "truth")
    names = {"namespace": "ns1", "pipelineName": "p", "modelName": "iris", "requestId": "abc"}
    body = json.dumps(names | {"feedback": {"regressionFeedback": {"value": 0.5}}}).encode()
    assert handle([record(0), record(0, topic="truth", body=body, headers=(), key=None)]).failures == []
    assert stored(database, FEEDBACK.c.request_id, FEEDBACK.c.number) == [("abc", 0.5)]


def test_a_server_that_stops_amid_it_loses_and_doubles_nothing(
    own_server: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = own_server.databases.create()
    monkeypatch.setenv("DATABASE_URL", url)
    pauses: list[float] = []

    def bring_back(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) % 3 == 0:
            own_server.start()

    monkeypatch.setattr(function, "retry_write", partial(retry_write, sleep=bring_back))
    assert handle([record(offset) for offset in range(5)]).failures == []
    own_server.stop()
    assert handle([record(offset) for offset in range(3, 10)]).failures == []  # its start waits
    assert [row[0] for row in stored(url, RESPONSES.c.offset)] == list(range(10))
    assert len(pauses) >= 3


class Logger:
    """A logger that keeps its lines."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def warn_with(self, message: str, **values: Any) -> None:
        self.said.append(f"{message} {values}")


def away() -> sa.exc.OperationalError:
    statement = "INSERT INTO responses VALUES (secret)"
    return sa.exc.OperationalError(statement, {}, sqlite3.OperationalError("database is\nlocked"))


@given(st.integers(0, 12))
@settings(deadline=None)
def test_it_is_tried_until_it_succeeds_and_less_and_less_often(failures: int) -> None:
    logger, left, pauses = Logger(), [away()] * failures, list[float]()

    def write() -> None:
        if left:
            raise left.pop()

    retry_write(write, logger, pauses.append)
    assert len(pauses) == len(logger.said) == failures
    assert pauses == sorted(pauses)
    assert all(0.1 <= pause <= 5 for pause in pauses)
    assert all("database is locked" in line and "secret" not in line for line in logger.said)


def never(_: float) -> None:
    raise AssertionError("there is nothing to wait for")


def test_what_is_wrong_with_the_rows_is_not_tried_again() -> None:
    def write() -> None:
        raise sa.exc.IntegrityError("", {}, sqlite3.IntegrityError("NOT NULL"))

    with pytest.raises(sa.exc.IntegrityError):
        retry_write(write, Logger(), never)


def test_settings_have_defaults_and_a_prefix_is_checked() -> None:
    found = read_settings({"DATABASE_URL": "postgresql://u:secret@h/d"})
    assert (found.topic_prefix, found.feedback_topic) == ("seldon", "model-feedback")
    assert found.database == "postgresql://u:secret@h/d"
    assert "secret" not in repr(found)
    assert read_settings({"KAFKA_CONSUMER_TOPIC_PREFIX": " acme.prod "}).topic_prefix == "acme.prod"
    assert read_settings({}).database == "sqlite:///model-metrics.sqlite"
    with pytest.raises(SettingsError, match="KAFKA_CONSUMER_TOPIC_PREFIX is 'a b': expected letters"):
        read_settings({"KAFKA_CONSUMER_TOPIC_PREFIX": "a b"})

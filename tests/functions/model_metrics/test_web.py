"""The API and the page, by the handler itself: what is there, what is wrong, and hostile names."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import nuclio_sdk
import pytest
import sqlalchemy as sa
from model_metrics_rows import RESPONSE
from postgresql import PostgreSQL

from headrace.functions.database import engine
from headrace.functions.database.engine import open_engine, read_only
from headrace.functions.database.schema import migrate
from headrace.functions.model_metrics import handler as function
from headrace.functions.model_metrics.metrics import work_queue
from headrace.functions.model_metrics.store.tables import CONFUSION, COUNTS, ERRORS, MIGRATIONS
from headrace.functions.model_metrics.store.writer import IgnoredRow, Rows, Writer
from headrace.functions.model_metrics.web import metrics_reader
from headrace.functions.model_metrics.web.metrics_reader import MetricsReader

METRICS = "/api/v1/metrics/pipeline/"
NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>"
KEY = {"namespace": "ns1", "model_name": "iris", "model_version": "1", "pipeline_name": "p"}


@dataclass
class Request:
    """A request as a function sees it."""

    path: str
    fields: dict[str, str] = field(default_factory=dict)
    method: str = "GET"
    trigger: Any = field(default_factory=lambda: SimpleNamespace(kind="http"))


class Site:
    """The handler on one database."""

    def __init__(self, engine: sa.Engine) -> None:
        self.warnings: list[str] = []
        logger = SimpleNamespace(warn_with=lambda text, **values: self.warnings.append(f"{text} {values}"))
        data = SimpleNamespace(engine=engine, answers=MetricsReader(engine))
        self._context = SimpleNamespace(user_data=data, logger=logger, Response=nuclio_sdk.Response)

    def ask(self, path: str, method: str = "GET", **fields: str) -> Any:
        return function.handler(self._context, Request(path, fields, method))

    def read(self, path: str, **fields: str) -> Any:
        status, said = self.said(path, **fields)
        assert status == 200, said
        return said

    def said(self, path: str, **fields: str) -> tuple[int, Any]:
        answer = self.ask(path, "GET", **fields)
        return answer.status_code, json.loads(answer.body)


@pytest.fixture
def site(engine: sa.Engine) -> Site:
    """With an hour of a model: two versions, classes and numbers."""
    Writer(engine).write(Rows([replace(RESPONSE, response_timestamp=NOON)], [], IGNORED))
    rows: dict[sa.Table, list[dict[str, Any]]] = {COUNTS: [], CONFUSION: [], ERRORS: []}
    for minute in range(60):
        at = {**KEY, "bucket": NOON + timedelta(minutes=minute)}
        rows[COUNTS] += [{**at, "responses": 10}, {**at, "model_version": "2", "responses": 5}]
        rows[CONFUSION] += [{**at, "actual": "a", "predicted": "a", "predictions": 3}]
        rows[CONFUSION] += [{**at, "actual": "a", "predicted": "b", "predictions": 1}] * (minute < 30)
        rows[ERRORS] += [{**at, "predictions": 2, "absolute": 2.0, "squared": 2.5}]
    with engine.begin() as connection:
        for table, given in rows.items():
            connection.execute(sa.insert(table), given)
    return Site(engine)


IGNORED = [IgnoredRow("t", 0, number, -1, "no_key" if number else "no_value") for number in range(3)]
HOUR = {"startTime": "2026-05-17T12:00:00Z", "endTime": "2026-05-17T13:00:00Z"}


def test_all_models_are_listed(site: Site) -> None:
    about = {
        "namespace": "ns1",
        "modelName": "iris",
        "pipelineName": "p",
        "lastMinute": "2026-05-17T12:59:00Z",
    }
    first, second = {"modelVersion": "1", "responses": 600}, {"modelVersion": "2", "responses": 300}
    assert site.read("/api/v1/models") == [{**about, **first}, {**about, **second}]


def test_ignored_messages_are_counted_by_reason(site: Site) -> None:
    assert site.read("/api/v1/ignored") == {"no_key": 2, "no_value": 1}


def test_responses_are_counted_in_each_part(site: Site) -> None:
    parts = site.read(f"{METRICS}responses", **HOUR, interval="15m")
    assert [part["responses"] for part in parts] == [225] * 4
    assert [part["startTime"] for part in parts][:2] == ["2026-05-17T12:00:00Z", "2026-05-17T12:15:00Z"]
    (part,) = site.read(f"{METRICS}responses", **HOUR, interval="1h", modelVersion="2")
    assert part["responses"] == 300


def test_a_classification_is_scored_as_a_whole_and_in_parts(site: Site) -> None:
    found = site.read(f"{METRICS}classification", **HOUR, interval="30m", modelName="iris")
    assert found["confusion"] == [["a", "a", 180], ["a", "b", 30]]
    assert found["accuracy"] == pytest.approx(180 / 210)
    assert found["classes"]["a"]["recall"] == pytest.approx(180 / 210)
    assert [part["accuracy"] for part in found["parts"]] == [pytest.approx(0.75), 1]


def test_errors_are_scored_as_a_whole_and_in_parts(site: Site) -> None:
    found = site.read(f"{METRICS}regression", **HOUR)
    assert (found["predictions"], found["mae"], found["mse"]) == (120, 1.0, 1.25)
    assert len(found["parts"]) == 60


def test_years_are_summed_up_by_the_database(engine: sa.Engine) -> None:
    days = [{**KEY, "bucket": NOON + timedelta(days=day), "responses": day} for day in range(2000)]
    with engine.begin() as connection:
        connection.execute(sa.insert(COUNTS), days)
    parts = Site(engine).read(
        f"{METRICS}responses", startTime="0001-01-01T00:00:00Z", endTime="9999-12-31T23:59:59Z"
    )
    assert sum(part["responses"] for part in parts) == sum(range(2000))
    whole = Site(engine).read(f"{METRICS}responses", startTime="2026-05-17T00:00:00Z", endTime="2033-01-01")
    assert sum(part["responses"] for part in whole) == sum(range(2000))


def test_more_classes_than_one_can_look_at_are_refused(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = [{"actual": f"{n}.5", "predicted": f"{n}.25", "predictions": 1} for n in range(10)]
    with engine.begin() as connection:
        connection.execute(sa.insert(CONFUSION), [{**KEY, "bucket": NOON, **label} for label in labels])
    site = Site(engine)
    assert len(site.read(f"{METRICS}classification", **HOUR)["classes"]) == 20
    monkeypatch.setattr(metrics_reader, "_MOST_CLASSES", 19)
    status, said = site.said(f"{METRICS}classification", **HOUR)
    assert (status, said["error"].partition(":")[0]) == (400, "there are more than 19 classes in that time")
    monkeypatch.setattr(metrics_reader, "_MOST_SUMS", 9)
    assert site.said(f"{METRICS}classification", **HOUR)[1]["error"].startswith("that is more than 9 sums")


def test_a_question_that_takes_too_long_gets_a_line(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_SECONDS", -1.0)
    status, said = site.said(f"{METRICS}responses", **HOUR)
    assert (status, said["error"]) == (503, "that takes longer than -1 s to read: ask for less")
    assert "a request takes too long to answer" in site.warnings[0]


def test_a_time_without_anything_has_no_scores(site: Site) -> None:
    earlier = {"startTime": "2026-05-16T12:00:00Z", "endTime": "2026-05-16T13:00:00Z", "interval": "1h"}
    assert site.read(f"{METRICS}classification", **earlier)["accuracy"] is None
    assert site.read(f"{METRICS}regression", **earlier)["parts"][0]["rmse"] is None
    assert site.read(f"{METRICS}responses", **earlier)[0]["responses"] == 0


def test_what_cannot_be_answered_gets_one_line(site: Site) -> None:
    status, said = site.said(f"{METRICS}responses", interval="x")
    assert (status, said["error"].partition(";")[0]) == (400, "interval is no duration")
    status, said = site.said("/api/v2")
    assert status == 404
    assert "nothing is here; there are / and /api/v1/ignored" in said["error"]
    refused = site.ask("/api/v1/models", "DELETE")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("path", "content_type"),
    [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")],
)
def test_the_page_is_of_this_function_and_talks_to_nobody_else(
    site: Site, path: str, content_type: str
) -> None:
    answer = site.ask(path)
    assert answer.status_code == 200
    assert answer.content_type.startswith(content_type)
    assert b"//" not in answer.body.replace(b"http://www.w3.org/2000/svg", b"").replace(b"// ", b"")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_a_name_is_text_whatever_it_says(engine: sa.Engine) -> None:
    counted = [{**KEY, "model_name": HOSTILE, "bucket": NOON, "responses": 1}]
    with engine.begin() as connection:
        connection.execute(sa.insert(COUNTS), counted)
    site = Site(engine)
    assert site.ask("/api/v1/models").content_type == "application/json"
    assert site.read("/api/v1/models")[0]["modelName"] == HOSTILE
    assert (
        site.read(f"{METRICS}responses", **HOUR, modelName="' OR 1=1 --", interval="1h")[0]["responses"] == 0
    )


def test_a_database_that_is_away_is_503_and_a_line(own_server: PostgreSQL) -> None:
    engine = open_engine(own_server.databases.create())
    migrate(engine, MIGRATIONS)
    site = Site(engine)
    own_server.stop()
    try:
        assert site.ask("/").status_code == 200
        assert site.said("/api/v1/models") == (503, {"error": "the database is away"})
        assert "the database can't be read" in site.warnings[0]
    finally:
        own_server.start()
    assert site.read("/api/v1/models") == []
    engine.dispose()


def test_writers_wait_for_no_reader(engine: sa.Engine) -> None:
    with read_only(engine).connect() as connection:
        connection.execute(sa.select(COUNTS)).all()
        Writer(engine).write(Rows([RESPONSE]))
        connection.execute(sa.select(COUNTS)).all()
    assert work_queue.count_waiting(engine) == 1

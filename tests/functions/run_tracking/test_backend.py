"""The backend's API: what it returns, what it refuses, and what is published before it is written."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from backend_site import BASE, Backend
from postgresql import PostgreSQL
from run_rows import BEGAN, Rows

from headrace.functions.database import engine
from headrace.functions.database.engine import open_engine
from headrace.functions.database.schema import migrate
from headrace.functions.run_tracking.backend import responses
from headrace.functions.run_tracking.messages.envelopes import read_event, read_message
from headrace.functions.run_tracking.messages.items import DeleteRun
from headrace.functions.run_tracking.store import curves, readers
from headrace.functions.run_tracking.store import tables as t
from headrace.functions.run_tracking.store.tables import id_of_name

TRAIN = {"subset": "train"}
HOSTILE = "<script>alert('1')</script>"
SECONDS = BEGAN.timestamp()


@pytest.fixture
def rows(engine: sa.Engine) -> Rows:
    return Rows(engine)


@pytest.fixture
def backend(engine: sa.Engine, tmp_path: Path) -> Backend:
    return Backend(engine, tmp_path)


def a_run(rows: Rows, run_id: str = "r", experiment: str = "baseline") -> None:
    """Messages of a run with something of every kind."""
    rows.run(
        run_id, name="first", description="d", experiment_id=rows.experiment(experiment), duration_seconds=2.5
    )
    rows.put(t.RUN_ATTRS, {"run_id": run_id, "attrs": '{"lr": 0.1, "nan": NaN}'})
    rows.metric(run_id, "loss", [3.0, 2.0, math.nan, 1.0], TRAIN)
    rows.metric(run_id, "loss", [9.0])
    named = {"run_id": run_id, "context_id": 0, "last_step": 0}
    dtypes = ("image", "text", "distribution", "audio", "figure", "logs", "log_records")
    rows.put(t.TRACES, *({**named, "name": f"an {dtype}", "dtype": dtype} for dtype in dtypes))
    rows.put(t.TERMINAL_LINES, *({"run_id": run_id, "step": n, "line": f"line {n}"} for n in range(5)))
    record = json.dumps({"message": "hello", "log_level": 20})
    rows.put(t.LOG_RECORDS, *({"run_id": run_id, "step": n, "record": record} for n in range(3)))
    blob = {"content_type": "text/plain", "blob_key": f"{run_id}/a b/model.bin"}
    rows.put(t.BLOBS, {"run_id": run_id, "artifact_path": "a b/model.bin", **blob})
    rows.put(t.STEPLESS, {"run_id": run_id, "source": "s", "step": 0})
    value = {"step": 0, "value": "{}", "time": BEGAN}
    rows.put(t.CUSTOM_OBJECTS, {"run_id": run_id, "context_id": 0, "name": "i", **value})
    rows.tag("good", run_id)


# ---- reading


def test_a_run_is_told_as_matyans_clients_take_it(rows: Rows, backend: Backend) -> None:
    a_run(rows)
    found = backend.read("/runs/r/info/")
    assert found["params"] == {"lr": 0.1, "nan": None}
    assert found["traces"].pop("metric") == [
        {"name": "loss", "context": {}, "last_value": 9.0},
        {"name": "loss", "context": TRAIN, "last_value": 1.0},
    ]
    plural = {"images": "image", "texts": "text", "distributions": "distribution", "audios": "audio"}
    plural["figures"] = "figure"
    assert found["traces"] == {name: [{"name": f"an {one}", "context": {}}] for name, one in plural.items()}
    assert found["props"] == {
        "name": "first",
        "description": "d",
        "experiment": {"id": id_of_name("baseline"), "name": "baseline", "description": None},
        "tags": [{"id": id_of_name("good"), "name": "good", "color": None, "description": None}],
        "creation_time": SECONDS,
        "end_time": None,
        "archived": False,
        "active": True,
    }
    uri = f"{BASE}/runs/r/artifacts/download/?path=a%20b%2Fmodel.bin"
    assert found["artifacts"] == [{"name": "model.bin", "path": "a b/model.bin", "uri": uri}]


def test_a_run_of_which_nothing_is_known_has_nothing(rows: Rows, backend: Backend) -> None:
    rows.run("r")
    found = backend.read("/runs/r/info")
    assert found["params"] == {}
    assert found["props"]["experiment"] is None
    assert set(map(len, found["traces"].values())) == {0}


def test_runs_are_listed_the_newest_first_and_by_what_is_asked(rows: Rows, backend: Backend) -> None:
    experiment = rows.experiment("e")
    for number in range(4):
        states = {"is_archived": number == 1, "is_active": number == 2}
        rows.run(f"r{number}", number, experiment_id=experiment if number > 1 else None, **states)
    rows.tag("b", "r3")
    rows.tag("a", "r3")

    def ids(**fields: str) -> list[str]:
        return [run["id"] for run in backend.read("/runs/", **fields)]

    assert ids() == ["r3", "r2", "r1", "r0"]
    assert ids(limit="2") == ["r3", "r2"]
    assert ids(experiment="e") == ["r3", "r2"]
    assert ids(archived="true") == ["r1"]
    assert ids(archived="false", active="true") == ["r2"]
    assert backend.read("/runs", limit="1") == [
        {
            "id": "r3",
            "name": None,
            "experiment": "e",
            "tags": ["a", "b"],
            "creation_time": SECONDS + 180,
            "end_time": None,
            "duration": None,
            "archived": False,
            "active": False,
        }
    ]


def test_curves_are_what_was_tracked_with_null_for_what_is_no_number(rows: Rows, backend: Backend) -> None:
    a_run(rows)
    asked = [{"name": "loss", "context": TRAIN}, {"name": "loss"}, {"name": "no-such", "context": {}}]
    found = backend.done("POST", "/runs/r/metric/get-batch/", asked)
    assert found == [
        {"name": "loss", "context": TRAIN, "iters": [0, 1, 2, 3], "values": [3.0, 2.0, None, 1.0]},
        {"name": "loss", "context": {}, "iters": [0], "values": [9.0]},
        {"name": "no-such", "context": {}, "iters": [], "values": []},
    ]


@pytest.mark.parametrize(("count", "density"), [(1000, 50), (51, 50), (50, 50), (1000, 2), (3, 2), (997, 7)])
def test_long_curves_are_thinned_evenly_and_keep_both_ends(
    rows: Rows, backend: Backend, count: int, density: int
) -> None:
    rows.run("r")
    rows.metric("r", "loss", [float(step) for step in range(count)])
    (found,) = backend.done(
        "POST", "/runs/r/metric/get-batch/", [{"name": "loss", "context": {}}], record_density=str(density)
    )
    iters = found["iters"]
    assert found["values"] == iters
    assert len(iters) == min(count, density)
    assert (iters[0], iters[-1]) == (0, count - 1)
    gaps = {after - before for before, after in pairwise(iters)}
    assert max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [("2:5", 2, 4), ("2,5", 2, 4), (":3", 0, 2), ("7:", 7, 9), ("", 0, 9), (":", 0, 9)],
)
def test_a_range_of_steps_has_no_end_of_its_own(
    rows: Rows, backend: Backend, text: str, first: int, last: int
) -> None:
    rows.run("r")
    rows.metric("r", "loss", [float(step) for step in range(10)])
    asked = [{"name": "loss", "context": {}}]
    (found,) = backend.done("POST", "/runs/r/metric/get-batch/", asked, record_range=text)
    assert found["iters"] == list(range(first, last + 1))


def test_logs_are_the_last_lines_and_records_in_order(rows: Rows, backend: Backend) -> None:
    a_run(rows)
    assert backend.read("/runs/r/logs/", limit="2") == [
        {"step": 3, "line": "line 3"},
        {"step": 4, "line": "line 4"},
    ]
    assert len(backend.read("/runs/r/logs/")) == 5
    assert backend.read("/runs/r/log-records/", limit="1") == [
        {"step": 2, "message": "hello", "log_level": 20}
    ]


def test_experiments_tags_and_the_project_are_counted(rows: Rows, backend: Backend) -> None:
    a_run(rows)
    rows.experiment("empty")
    baseline, empty = backend.read("/experiments/")
    assert (baseline["name"], baseline["run_count"], empty["run_count"]) == ("baseline", 1, 0)
    (tag,) = backend.read("/tags/")
    assert (tag["id"], tag["run_count"], tag["color"]) == (id_of_name("good"), 1, None)
    found = backend.read("/projects/")
    counts = [found[name] for name in ("runs", "active_runs", "archived_runs", "experiments", "tags")]
    assert counts == [1, 1, 0, 2, 1]


def test_summaries_are_what_spark_has_left_or_nothing(backend: Backend) -> None:
    assert backend.read("/summaries/runs") == []
    folder = Path(backend.settings.summaries)
    folder.mkdir()
    (folder / "real").mkdir()
    (folder / "runs").symlink_to("real")
    columns = {"run": ["a", "b"], "experiment": ["e", None], "max": [math.inf, math.nan]}
    pq.write_table(pa.table(columns), folder / "real" / "part.parquet")
    assert backend.read("/summaries/runs") == [
        {"run": "a", "experiment": "e", "max": None},
        {"run": "b", "experiment": None, "max": None},
    ]
    assert [row["run"] for row in backend.read("/summaries/runs/", run="b")] == ["b"]
    assert [row["run"] for row in backend.read("/summaries/runs", experiment="e", limit="1")] == ["a"]
    assert backend.read("/summaries/runs", experiment=HOSTILE) == []
    assert backend.read("/summaries/experiments") == []
    assert backend.said("GET", "/summaries/experiments", experiment="\ud800")[0] == 400


def test_it_says_what_and_how_it_is(backend: Backend) -> None:
    found = backend.read("/version/")
    assert (found["component"], bool(found["version"])) == ("backend", True)
    for path in ("/health/live/", "/health/live", "/health/ready/", "/health/ready"):
        assert backend.ask("GET", path).status_code == 200
    assert backend.ask("HEAD", "/health/live/").status_code == 200


# ---- no question asks for too much


def test_many_curves_are_as_many_points_as_there_are(
    rows: Rows, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The published client asks for up to 50,000 points of each metric of a run."""
    rows.run("r")
    for number in range(25):
        rows.metric("r", f"m{number}", [1.0, 2.0])
    asked = [{"name": f"m{number}"} for number in range(25)]
    found = backend.done("POST", "/runs/r/metric/get-batch/", asked, record_density="50000")
    assert [curve["values"] for curve in found] == [[1.0, 2.0]] * 25
    monkeypatch.setattr(curves, "MOST_POINTS", 49)
    status, said = backend.said("POST", "/runs/r/metric/get-batch/", asked)
    assert (status, said["error"]) == (400, "that is more than 49 points: ask for fewer at once")


def test_a_long_answer_comes_in_parts_and_a_longer_one_is_refused(
    rows: Rows, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.run("r")
    rows.metric("r", "loss", [float(step) for step in range(100)])
    asked = [{"name": "loss"}] * 3
    whole = backend.done("POST", "/runs/r/metric/get-batch/", asked)
    monkeypatch.setattr(responses, "_SENT_AT_ONCE", 100)
    answer = backend.ask("POST", f"{BASE}/runs/r/metric/get-batch/", asked)
    parts = list(answer.body)
    assert len(parts) == 5
    assert json.loads(b"".join(parts)) == whole
    for path in ("/runs/r/metric/get-batch/", "/runs/r/info/"):
        monkeypatch.setattr(responses, "_MOST_BYTES", 300)
        status, said = backend.said(*(("POST", path, asked) if "batch" in path else ("GET", path)))
        assert (status, said["error"].partition(":")[0]) == (400, "the answer would be more than 300 bytes")


@pytest.mark.parametrize(("path", "member"), [("logs", "line"), ("log-records", "message")])
def test_the_last_lines_are_no_more_than_one_answer_holds(
    rows: Rows, backend: Backend, monkeypatch: pytest.MonkeyPatch, path: str, member: str
) -> None:
    rows.run("r")
    table, column = (t.TERMINAL_LINES, "line") if path == "logs" else (t.LOG_RECORDS, "record")
    texts = ["x" * 1000, "a" * 100, "b" * 100, "c" * 100]
    written = texts if path == "logs" else [json.dumps({"message": text}) for text in texts]
    rows.put(table, *({"run_id": "r", "step": n, column: text} for n, text in enumerate(written)))
    monkeypatch.setattr(readers, "_MOST_LETTERS", 200)
    assert [one["step"] for one in backend.read(f"/runs/r/{path}/")] == [2, 3]
    monkeypatch.setattr(readers, "_MOST_LETTERS", 1)
    (last,) = backend.read(f"/runs/r/{path}/")
    assert last[member] == texts[-1]


@pytest.mark.parametrize(
    "asked",
    [
        [{"name": "loss"}] * 10_001,
        [{"name": "loss", "context": {"a": json.loads("[" * 50 + "]" * 50)}}],
        [{"name": "loss", "context": {"a": "x" * 5000}}],
    ],
)
def test_what_no_run_has_is_not_asked_for(rows: Rows, backend: Backend, asked: Any) -> None:
    rows.run("r")
    status, said = backend.said("POST", "/runs/r/metric/get-batch/", asked)
    assert status == 400
    assert "\n" not in said["error"]


@pytest.mark.parametrize(("member", "most"), [("name", 512), ("experiment", 512), ("description", 100_000)])
def test_a_property_is_no_longer_than_a_clients(rows: Rows, backend: Backend, member: str, most: int) -> None:
    rows.run("r")
    backend.done("PUT", "/runs/r/", {member: "x" * most})
    status, said = backend.said("PUT", "/runs/r/", {member: "x" * (most + 1)})
    assert (status, said["error"]) == (400, f"{member} has {most + 1} characters: at most {most}")


def test_what_is_nested_too_deep_is_said_in_a_line(rows: Rows, backend: Backend) -> None:
    rows.run("r")
    rows.put(t.RUN_ATTRS, {"run_id": "r", "attrs": '{"nan": NaN, "a": ' + "[" * 990 + "]" * 990 + "}"})
    said = {"error": "what is stored is nested too deep to be said"}
    assert backend.said("GET", "/runs/r/info/") == (500, said)


def test_names_are_listed_up_to_a_number_of_them(rows: Rows, backend: Backend) -> None:
    for name in ("b", "a", "c"):
        rows.experiment(name)
        rows.tag(name)
    for path in ("/experiments/", "/tags/"):
        assert [one["name"] for one in backend.read(path, limit="2")] == ["a", "b"]
        assert backend.said("GET", path, limit="10001")[0] == 400


def test_a_question_that_takes_too_long_gets_a_line(
    rows: Rows, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(rows)
    monkeypatch.setattr(engine, "MOST_SECONDS", -1.0)
    said = {"error": "that takes longer than -1 s to read: ask for less"}
    assert backend.said("GET", "/runs/r/info/") == (503, said)
    assert "a request takes too long to answer" in backend.warnings[0]


# ---- artifacts


def test_an_artifact_comes_in_parts_and_is_no_page_of_ours(rows: Rows, backend: Backend) -> None:
    a_run(rows)
    backend.blobs.parts["r/a b/model.bin"] = [b"<script>", b"x" * 10, b"</script>"]
    answer = backend.ask("GET", f"{BASE}/runs/r/artifacts/download/", path="a b/model.bin")
    assert (answer.status_code, answer.content_type) == (200, "text/plain")
    assert list(answer.body) == [b"<script>", b"x" * 10, b"</script>"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "sandbox" in policy
    assert "'self'" not in policy
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    disposition = answer.headers["Content-Disposition"]
    assert disposition == "attachment; filename=\"model.bin\"; filename*=UTF-8''model.bin"


@pytest.mark.parametrize(
    "content_type",
    [
        "text/html",
        "Application/XHTML+xml",
        "image/svg+xml",
        "application/ecmascript",
        "text/css",
    ],
)
def test_what_a_browser_would_run_is_sent_as_bytes(rows: Rows, backend: Backend, content_type: str) -> None:
    rows.run("r")
    rows.put(t.BLOBS, {"run_id": "r", "artifact_path": "a", "content_type": content_type, "blob_key": "r/a"})
    backend.blobs.parts["r/a"] = [b"<script>alert(1)</script>"]
    answer = backend.ask("GET", f"{BASE}/runs/r/artifacts/download/", path="a")
    assert answer.content_type == "application/octet-stream"
    assert list(answer.body) == [b"<script>alert(1)</script>"]


@pytest.mark.parametrize(
    ("path", "plain", "whole"),
    [
        ('x/a".html\r\nSet-Cookie: a=b', "a_.html__Set-Cookie__a_b", "a%22.html__Set-Cookie%3A%20a%3Db"),
        ("é.bin", "_.bin", "%C3%A9.bin"),
        ("../../.bashrc", "bashrc", "bashrc"),
        ("folder/", "artifact", "artifact"),
    ],
)
def test_a_files_name_is_none_that_does_harm(
    rows: Rows, backend: Backend, path: str, plain: str, whole: str
) -> None:
    rows.run("r")
    blob = {"content_type": "text/html\r\nX: y", "blob_key": "r/k"}
    rows.put(t.BLOBS, {"run_id": "r", "artifact_path": path, **blob})
    backend.blobs.parts["r/k"] = []
    answer = backend.ask("GET", f"{BASE}/runs/r/artifacts/download", path=path)
    assert answer.content_type == "application/octet-stream"
    said = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{whole}"
    assert answer.headers["Content-Disposition"] == said
    assert list(answer.body) == []


def test_what_the_store_has_not_or_cannot_say_is_an_error(rows: Rows, backend: Backend) -> None:
    a_run(rows)
    download = "/runs/r/artifacts/download/"
    for path in ("no-such", "a b/model.bin", ""):  # a row, and no bytes
        assert backend.said("GET", download, path=path)[0] == 404
    backend.blobs.is_away = True
    status, said = backend.said("GET", download, path="a b/model.bin")
    assert (status, said) == (503, {"error": "the blob store is away"})
    assert "the store is away" in backend.warnings[0]


# ---- changes


def test_a_run_is_deleted_after_it_is_published_and_with_all_that_is_its(
    rows: Rows, backend: Backend
) -> None:
    a_run(rows)
    rows.run("other")
    rows.metric("other", "loss", [1.0])
    seen: list[int] = []
    backend.at_send = lambda: seen.append(len(rows.all(t.RUNS)))
    assert backend.done("DELETE", "/runs/r/") == {"id": "r", "status": "OK"}
    assert seen == [2]
    assert backend.published() == [("data-ingestion", "delete_run", {}, "r")]
    assert isinstance(read_message(backend.sent[0].value).item, DeleteRun)
    assert [run["id"] for run in rows.all(t.RUNS)] == ["other"]
    assert [row["run_id"] for row in rows.all(t.TOMBSTONES)] == ["r"]
    left = {table.name: {row["run_id"] for row in rows.all(table)} for table in t.RUN_TABLES}
    assert {name for name, ids in left.items() if ids} == {"contexts", "traces", "sequences"}
    assert set().union(*left.values()) == {"other"}
    assert backend.said("DELETE", "/runs/r/")[0] == 404
    assert backend.said("GET", "/runs/r/info/")[0] == 404


@pytest.mark.full_but("*-request_1-*")
@pytest.mark.parametrize("failure", [TimeoutError(), RuntimeError("no\nbroker")])
@pytest.mark.parametrize(
    "request_",
    [
        ("DELETE", "/runs/r/", b""),
        ("POST", "/runs/delete-batch/", ["r"]),
        ("POST", "/runs/archive-batch/", ["r"]),
        ("PUT", "/runs/r/", {"name": "new", "archived": True}),
        ("DELETE", f"/experiments/{id_of_name('baseline')}/", b""),
        ("DELETE", f"/tags/{id_of_name('good')}/", b""),
    ],
)
def test_what_cannot_be_published_is_not_written(
    rows: Rows, backend: Backend, failure: Exception, request_: tuple[str, str, Any]
) -> None:
    a_run(rows)
    before = [rows.all(table) for table in t.METADATA.sorted_tables if table is not t.SEQUENCES]
    backend.failure = failure
    status, said = backend.said(*request_)
    assert (status, said) == (503, {"error": "no broker has confirmed the change in time: try again"})
    assert len(backend.warnings) == 1
    assert "\\n" not in backend.warnings[0]
    assert [rows.all(table) for table in t.METADATA.sorted_tables if table is not t.SEQUENCES] == before


def test_several_runs_are_deleted_at_once_and_others_are_passed_over(rows: Rows, backend: Backend) -> None:
    for run_id in ("a", "b", "c"):
        rows.run(run_id)
    said = backend.done("POST", "/runs/delete-batch/", ["c", "no-such", "a", "a"])
    assert said == {"status": "OK", "deleted": ["c", "a"]}
    assert [key for *_, key in backend.published()] == ["c", "a"]
    assert [run["id"] for run in rows.all(t.RUNS)] == ["b"]
    assert backend.done("POST", "/runs/delete-batch/", {})["deleted"] == []


def test_runs_are_archived_and_taken_back(rows: Rows, backend: Backend) -> None:
    rows.run("a")
    rows.run("b")
    backend.done("POST", "/runs/archive-batch/", ["a", "b"], archive="true")
    backend.done("POST", "/runs/archive-batch", ["a"], archive="false")
    backend.done("PUT", "/runs/b/", {"archived": False})
    assert backend.published() == [
        ("control-events", "run_archived", {"run_id": "a", "archived": True}, None),
        ("control-events", "run_archived", {"run_id": "b", "archived": True}, None),
        ("control-events", "run_unarchived", {"run_id": "a", "archived": False}, None),
        ("control-events", "run_unarchived", {"run_id": "b", "archived": False}, None),
    ]
    assert read_event(backend.sent[0].value).type == "run_archived"
    assert [run["is_archived"] for run in rows.all(t.RUNS)] == [False, False]


def test_a_put_changes_what_it_names_and_nothing_else(rows: Rows, backend: Backend) -> None:
    a_run(rows)
    backend.done("PUT", "/runs/r/", b'{"name": "\\u00e9", "description": null, "experiment": "new"}')
    found = backend.read("/runs/r/info/")["props"]
    assert (found["name"], found["description"], found["experiment"]["name"]) == ("é", "d", "new")
    backend.done("PUT", "/runs/r", {})
    backend.done("PUT", "/runs/r/", {"experiment": "", "unknown": 1})
    assert backend.read("/runs/r/info/")["props"]["experiment"] is None
    assert backend.sent == []
    assert len(backend.read("/experiments/")) == 2


def test_a_tombstone_is_cleared(rows: Rows, backend: Backend) -> None:
    rows.put(t.TOMBSTONES, {"run_id": "r", "deleted_at": BEGAN})
    answer = backend.ask("POST", f"{BASE}/runs/r/clear-tombstone/")
    assert (answer.status_code, answer.body) == (204, b"")
    assert rows.all(t.TOMBSTONES) == []
    assert backend.ask("POST", f"{BASE}/runs/r/clear-tombstone").status_code == 204


def test_tags_come_and_go(rows: Rows, backend: Backend) -> None:
    a_run(rows)
    said = backend.done("POST", "/runs/r/tags/new/", {"tag_name": "new"})
    assert backend.done("POST", "/runs/r/tags/new", {"tag_name": "new"}) == said
    assert said == {"id": "r", "tag_id": id_of_name("new"), "status": "OK"}
    assert [tag["name"] for tag in backend.read("/runs/r/info/")["props"]["tags"]] == ["good", "new"]
    assert backend.done("DELETE", f"/runs/r/tags/{said['tag_id']}/")["removed"]
    assert backend.said("DELETE", f"/runs/r/tags/{said['tag_id']}/")[0] == 404
    assert backend.said("POST", "/runs/none/tags/new/", {"tag_name": "other"})[0] == 404
    assert len(backend.read("/tags/")) == 2
    assert backend.sent == []


def test_experiments_and_tags_are_made_once_and_deleted_with_an_event(rows: Rows, backend: Backend) -> None:
    a_run(rows)
    for kind, name, event in (
        ("experiments", "baseline", ("experiment_deleted", "experiment_id")),
        ("tags", "good", ("tag_deleted", "tag_id")),
    ):
        key = id_of_name(name)
        assert backend.done("POST", f"/{kind}/", {"name": name}) == {"id": key, "status": "OK"}
        assert backend.done("POST", f"/{kind}", {"name": HOSTILE})["id"] == id_of_name(HOSTILE)
        assert backend.done("DELETE", f"/{kind}/{key}/") == {"id": key, "status": "OK"}
        assert backend.published()[-1] == ("control-events", event[0], {event[1]: key}, None)
        assert [one["name"] for one in backend.read(f"/{kind}/")] == [HOSTILE]
        assert backend.said("DELETE", f"/{kind}/{key}")[0] == 404
    props = backend.read("/runs/r/info/")["props"]
    assert (props["experiment"], props["tags"]) == (None, [])


# ---- what is refused


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing/", 404),
        ("GET", "/runs/r/", 405),
        ("PATCH", "/runs/r/", 405),
        ("POST", "/version/", 405),
        ("GET", "/runs/no-such/info/", 404),
        ("GET", "/runs/no-such/logs/", 404),
        ("GET", "/runs/no-such/log-records/", 404),
        ("DELETE", "/runs/no-such/", 404),
        ("GET", "/runs/.hidden/info/", 400),
        ("GET", "/runs/a b/info/", 400),
        ("DELETE", f"/runs/{'x' * 129}/", 400),
        ("POST", "/runs/a'b/clear-tombstone/", 400),
        ("DELETE", "/experiments/no-such/", 404),
        ("DELETE", "/tags/' OR 1=1/", 404),
    ],
)
def test_what_is_not_there_is_said_in_one_line(
    rows: Rows, backend: Backend, method: str, path: str, status: int
) -> None:
    rows.run("r")
    answer = backend.ask(method, BASE + path)
    said = json.loads(answer.body)
    assert answer.status_code == status
    assert said["error"]
    assert "\n" not in said["error"]
    assert ("Allow" in answer.headers) == (status == 405)


@pytest.mark.full_but("*-body2")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/runs/r/", b"{"),
        ("PUT", "/runs/r/", b"[" * 100_000),
        ("PUT", "/runs/r/", []),
        ("PUT", "/runs/r/", {"name": 1}),
        ("PUT", "/runs/r/", {"archived": "yes"}),
        ("PUT", "/runs/r/", {"name": "a\0b"}),
        ("PUT", "/runs/r/", b'{"name": "\\ud800"}'),
        ("PUT", "/runs/r/", b"\xff"),
        ("POST", "/runs/r/metric/get-batch/", {"name": "loss"}),
        ("POST", "/runs/r/metric/get-batch/", [{"name": 1}]),
        ("POST", "/runs/r/metric/get-batch/", ["loss"]),
        ("POST", "/runs/r/metric/get-batch/", [{"name": "loss", "context": []}] * 30_000),
        ("POST", "/runs/r/tags/new/", {}),
        ("POST", "/experiments/", {"name": ""}),
        ("POST", "/tags/", {"name": "x" * 2000}),
        ("POST", "/runs/delete-batch/", "r"),
        ("POST", "/runs/delete-batch/", ["r", "../r"]),
        ("POST", "/runs/delete-batch/", [1]),
        ("POST", "/runs/archive-batch/", ["r"] * 1001),
    ],
)
def test_a_body_that_is_none_is_400(rows: Rows, backend: Backend, method: str, path: str, body: Any) -> None:
    rows.run("r")
    status, said = backend.said(method, path, body)
    assert (status, list(said)) == (400, ["error"])
    assert backend.sent == []


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("/runs/", "limit", "501"),
        ("/runs/", "limit", "-1"),
        ("/runs/", "limit", "9" * 5000),
        ("/runs/", "archived", "perhaps"),
        ("/runs/", "experiment", "a\0"),
        ("/runs/r/logs/", "limit", "0"),
        ("/summaries/runs", "limit", "x"),
        ("/runs/r/artifacts/download/", "path", "\0"),
        ("/runs/r/artifacts/download/", "path", ["a", "b"]),
        ("/summaries/runs", "run", ["r", "r"]),
    ],
)
def test_a_query_that_is_none_is_400(rows: Rows, backend: Backend, path: str, name: str, value: Any) -> None:
    rows.run("r")
    assert backend.said("GET", path, **{name: value})[0] == 400
    batch = "/runs/r/metric/get-batch/"
    for wrong in ({"record_density": "1"}, {"record_range": "a:b"}, {"record_range": "9" * 40}):
        assert backend.said("POST", batch, [], **wrong)[0] == 400


def test_a_database_that_is_away_is_503_and_a_line(own_server: PostgreSQL, tmp_path: Path) -> None:
    engine = open_engine(own_server.databases.create())
    migrate(engine, t.MIGRATIONS)
    backend = Backend(engine, tmp_path)
    own_server.stop()
    try:
        assert backend.ask("GET", "/health/live/").status_code == 200
        assert backend.ask("GET", "/").status_code == 200
        assert backend.ask("GET", "/health/ready/").status_code == 503
        assert backend.said("GET", "/runs/") == (503, {"error": "the database is away"})
        assert len(backend.warnings) == 2
        assert "\\n" not in backend.warnings[0]
    finally:
        own_server.start()
    assert backend.read("/runs/") == []
    engine.dispose()

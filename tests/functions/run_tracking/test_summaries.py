"""Summaries by Spark: as plain Python counts them, whole or not at all, and made only where there is news."""

import json
import math
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession
from run_rows import BEGAN, Rows

from headrace.functions.run_tracking.store import tables as t
from headrace.functions.run_tracking.summaries import reading
from headrace.functions.run_tracking.summaries.folders import publish
from headrace.functions.run_tracking.summaries.reading import fingerprint
from headrace.functions.run_tracking.summaries.refresh import refresh

TRAIN, HOSTILE = {"subset": "train"}, "<script>alert('1')</script>\u2028é"


def read(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return rows


@pytest.mark.full_but("sqlite")
def test_summaries_are_those_of_plain_python(
    session: SparkSession, engine: sa.Engine, tmp_path: Path
) -> None:
    chance, rows, given = random.Random(7), Rows(engine), {}
    experiment = rows.experiment(HOSTILE)
    for number in range(4):
        run_id = f"run-{number}"
        rows.run(run_id, number, experiment_id=None if number == 3 else experiment, name=f"n{number}")
        for name, context in (("loss", TRAIN), ("loss", None), (HOSTILE, TRAIN)):
            values = [chance.uniform(-5, 5) for _ in range(chance.randrange(1, 40))]
            rows.metric(run_id, name, values, context)
            given[run_id, name, json.dumps(context or {})] = values
    assert refresh(session, engine, tmp_path) == sum(map(len, given.values()))

    of_runs = read(tmp_path / "runs")
    assert {(row["run"], row["name"], row["context"]) for row in of_runs} == set(given)
    for row in of_runs:
        values = given[row["run"], row["name"], row["context"]]
        assert (row["count"], row["min"], row["max"]) == (len(values), min(values), max(values))
        assert (row["last"], row["last_step"]) == (values[-1], len(values) - 1)
        assert row["mean"] == pytest.approx(statistics.fmean(values))
        assert row["run_name"] == row["run"].replace("run-", "n")
        assert row["experiment"] == (None if row["run"] == "run-3" else HOSTILE)
    for row in read(tmp_path / "experiments"):
        in_it = [f"run-{number}" for number in ((0, 1, 2) if row["experiment"] else (3,))]
        last = [given[run_id, row["name"], row["context"]][-1] for run_id in in_it]
        assert (row["runs"], row["min"], row["max"]) == (len(in_it), min(last), max(last))
        assert row["mean"] == pytest.approx(statistics.fmean(last))
    assert len(read(tmp_path / "experiments")) == 6


@pytest.mark.full_but("sqlite")
def test_curves_are_all_steps_with_their_times_however_they_are_parted(
    session: SparkSession, engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MOST_ROWS", 3)
    rows = Rows(engine)
    rows.run("r")
    rows.metric("r", "loss", [0.5, 0.25, 0.125, 4.0], TRAIN)
    rows.metric("r", "accuracy", [1.0, 2.0, 3.0])
    assert refresh(session, engine, tmp_path) == 7
    curves = sorted(read(tmp_path / "curves"), key=lambda row: (row["name"], row["step"]))
    assert [(row["name"], row["step"], row["value"]) for row in curves[3:]] == [
        ("loss", step, value) for step, value in enumerate([0.5, 0.25, 0.125, 4.0])
    ]
    assert curves[3]["time"] == BEGAN
    assert (curves[3]["run"], curves[3]["context"]) == ("r", '{"subset": "train"}')


@pytest.mark.full_but("sqlite")
def test_what_is_no_number_counts_in_nothing_but_the_count(
    session: SparkSession, engine: sa.Engine, tmp_path: Path
) -> None:
    rows = Rows(engine)
    rows.run("r", experiment_id=rows.experiment("e"))
    rows.metric("r", "loss", [1.0, math.nan, 3.0, None])
    rows.metric("r", "never", [math.nan])
    rows.metric("r", "high", [math.inf, 1e308, 1e308])
    refresh(session, engine, tmp_path)
    high, loss, never = sorted(read(tmp_path / "runs"), key=lambda row: str(row["name"]))
    assert [loss[name] for name in ("count", "min", "max", "mean", "last")] == [4, 1.0, 3.0, 2.0, None]
    assert [never[name] for name in ("count", "min", "max", "mean", "last")] == [1, None, None, None, None]
    assert [high[name] for name in ("count", "min", "max", "mean", "last")] == [
        3,
        1e308,
        math.inf,
        math.inf,
        1e308,
    ]
    assert [(row["runs"], row["mean"]) for row in read(tmp_path / "experiments")] == [
        (1, 1e308),
        (1, None),
        (1, None),
    ]


@pytest.mark.full_but("postgresql")
def test_nothing_is_done_where_nothing_has_changed_and_all_anew_where_something_has(
    session: SparkSession, engine: sa.Engine, tmp_path: Path
) -> None:
    rows = Rows(engine)
    assert refresh(session, engine, tmp_path) == 0
    assert [read(tmp_path / name) for name in ("runs", "experiments", "curves")] == [[], [], []]
    assert refresh(session, engine, tmp_path) is None
    rows.run("r")
    rows.metric("r", "loss", [1.0, 2.0])
    assert refresh(session, engine, tmp_path) == 2
    first = (tmp_path / "runs").resolve()
    with engine.begin() as connection:
        connection.execute(sa.update(t.SEQUENCES).where(t.SEQUENCES.c.step == 0).values(value=5.0))
    assert refresh(session, engine, tmp_path) == 2
    assert read(tmp_path / "runs")[0]["max"] == 5.0
    assert read(first)[0]["max"] == 2.0  # for whoever reads it just now
    with engine.begin() as connection:
        connection.execute(sa.delete(t.RUNS))  # what is left of it is of no run
    assert refresh(session, engine, tmp_path) == 0
    assert refresh(session, engine, tmp_path) is None
    assert len(list((tmp_path / "versions").iterdir())) == 2
    assert not first.exists()


@pytest.mark.full_but("sqlite")
def test_a_refresh_that_fails_leaves_what_was_there(
    session: SparkSession, engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Rows(engine)
    rows.run("r")
    rows.metric("r", "loss", [1.0])
    refresh(session, engine, tmp_path)
    rows.metric("r", "more", [1.0])
    monkeypatch.setattr("headrace.functions.run_tracking.summaries.refresh.publish", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        refresh(session, engine, tmp_path)
    assert [row["name"] for row in read(tmp_path / "runs")] == ["loss"]
    assert list(tmp_path.glob(".writing-*")) == []
    monkeypatch.undo()
    assert refresh(session, engine, tmp_path) == 2


def test_news_of_every_kind_are_found(engine: sa.Engine) -> None:
    rows, found = Rows(engine), [fingerprint(engine)]
    changes: list[Callable[[], object]] = [
        lambda: rows.run("r"),
        lambda: rows.metric("r", "loss", [1.0, 2.0, 2.0]),
        lambda: rows.experiment("e"),
        lambda: change(engine, t.RUNS, name="n"),
        lambda: change(engine, t.SEQUENCES, value=math.nan),
        lambda: change(engine, t.TRACES, last=9.0),
    ]
    for make in changes:
        make()
        found.append(fingerprint(engine))
    assert len(set(found)) == len(changes) + 1
    assert fingerprint(engine) == found[-1]


def change(engine: sa.Engine, table: sa.Table, **values: Any) -> None:
    with engine.begin() as connection:
        connection.execute(sa.update(table).values(**values))


def test_all_three_folders_change_at_once(tmp_path: Path) -> None:
    for version in ("1", "2", "3"):
        written = tmp_path / "written"
        for name in ("runs", "experiments", "curves"):
            (written / name).mkdir(parents=True)
            (written / name / "part").write_text(version)
        publish(tmp_path, written, version)
        said = {(tmp_path / name / "part").read_text() for name in ("runs", "experiments", "curves")}
        assert said == {version}
    assert {path.name for path in tmp_path.iterdir()} == {
        ".lock",
        "versions",
        "current",
        "runs",
        "experiments",
        "curves",
    }

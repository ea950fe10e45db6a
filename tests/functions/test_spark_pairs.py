"""Calls of a session that a Spark server of another version has to take: `make test-matrix` pairs them."""

import asyncio
import sqlite3
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions
from replica import wait_until
from spark import SharedSpark, end_session, is_closed
from spark_events import Event, events

from headrace.functions.spark import events_to_dataframe
from headrace.functions.tables import write_table
from headrace.runtime.spark.sessions import interrupt
from headrace.runtime.worker.api.spark import WorkerSpark

sql: Any = functions  # not all of it has types

COUNT = 10_000


# Above 64 MB a client doesn't put rows into the plan: it uploads them first.
@pytest.mark.parametrize("length", [2, pytest.param(10_000, marks=pytest.mark.full)], ids=["20kB", "100MB"])
def test_a_batch_of_events_arrives_whole(session: SparkSession, length: int) -> None:
    batch = [Event(offset, bytes(length)) for offset in range(COUNT)]
    frame = events_to_dataframe(session, batch)
    row = frame.selectExpr("count(*)", "sum(length(value))", "count(DISTINCT offset)").first()
    assert row is not None
    assert tuple(row) == (COUNT, COUNT * length, COUNT)


@pytest.mark.filterwarnings("ignore:The copy keyword is deprecated")  # PySpark passes it to pandas 3
def test_rows_arrive_and_come_back(session: SparkSession) -> None:
    rows = session.createDataFrame([(1, "a"), (2, None)], "n INT, s STRING")
    assert [tuple(row) for row in rows.collect()] == [(1, "a"), (2, None)]
    pandas: Any = rows.toPandas()
    again: Any = session.createDataFrame(pandas).toPandas()
    assert again.equals(pandas)
    assert list(pandas["n"]) == [1, 2]


def test_pythons_on_sparks_side_run_functions(session: SparkSession) -> None:
    double = sql.udf(lambda n: 2 * n, "long")
    square = sql.pandas_udf(lambda n: n * n, "long")
    row = session.range(4).select(sql.sum(double("id")), sql.sum(square("id"))).first()
    assert row is not None
    assert tuple(row) == (12, 14)


def test_a_temporary_view_is_queried_and_dropped(session: SparkSession) -> None:
    events_to_dataframe(session, events(0, 3)).createOrReplaceTempView("batch")
    row = session.sql("SELECT sum(offset) FROM batch").first()
    assert row is not None
    assert row[0] == 3
    assert session.catalog.dropTempView("batch")


def test_rows_are_written_to_a_table(session: SparkSession, tmp_path: Path) -> None:
    batch = events(0, 3)
    frame = events_to_dataframe(session, batch).select("topic", "partition", "offset")
    write_table(frame, f"sqlite:///{tmp_path / 'own.sqlite'}", "rows", batch)
    connection = sqlite3.connect(tmp_path / "own.sqlite")
    try:
        assert list(connection.execute("SELECT count(*), max(offset) FROM rows")) == [(3, 2)]
    finally:
        connection.close()


@pytest.mark.usefixtures("session")  # it leaves the environment as it was
def test_what_runs_is_cancelled_from_outside(spark: SharedSpark, tmp_path: Path) -> None:
    worker = WorkerSpark(spark.link.session_url, str(uuid.uuid4()), {}, __name__, lambda _: None)
    session, begun = worker.session, tmp_path / "begun"
    errors: list[Exception] = []

    def wait_for_long(_: object) -> int:
        begun.touch()
        time.sleep(600)
        return 0

    def run() -> None:
        try:
            session.range(1).select(sql.udf(wait_for_long, "long")("id")).collect()
        except Exception as error:
            errors.append(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    wait_until(lambda: begun.exists() or errors)
    asyncio.run(interrupt(spark.link.session_url, session.session_id))
    running.join(60)
    assert len(errors) == 1
    assert is_closed(spark.link.session_url, session.session_id)
    end_session(session)

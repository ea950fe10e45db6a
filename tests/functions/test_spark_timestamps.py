"""Times through Spark: exact to the microsecond, whatever zones there are and whatever the year is."""

import os
import sqlite3
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from broker import Broker
from postgresql import Databases
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from run_rows import BEGAN, Rows
from spark import SharedSpark, running_spark
from spark_events import Event
from spark_ranges import Context, Range, topic_of_times

from headrace.functions.database.engine import open_engine
from headrace.functions.database.schema import migrate
from headrace.functions.run_tracking.store.tables import MIGRATIONS
from headrace.functions.run_tracking.summaries.refresh import refresh
from headrace.functions.spark import events_to_dataframe, ranges_to_dataframe, write_parquet
from headrace.functions.tables import write_table
from headrace.runtime.worker.api.spark import WorkerSpark
from headrace.testing import Record, run_handler

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OLD, _LAST = datetime(1500, 3, 1, 12, 0, 0, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_BEFORE_1970 = _EPOCH - timedelta(microseconds=1)
# In America/Sao_Paulo the clock went from 23:59 to 23:00 in this hour, one of two with the same name.
_TWICE = datetime(2018, 2, 18, 2, 30, 0, 123456, tzinfo=UTC)
TIMES = [_OLD, _BEFORE_1970, _TWICE, datetime(2026, 1, 2, 12, 0, 0, 123456, tzinfo=UTC), _LAST, None]
ZONE, ARROW = "spark.sql.session.timeZone", "spark.sql.execution.arrow.pyspark.enabled"
CASES = [
    {ZONE: "America/Sao_Paulo", ARROW: "false"},
    {ZONE: "Asia/Kolkata", ARROW: "true", "spark.sql.timestampType": "TIMESTAMP_NTZ"},
]


@pytest.fixture(params=CASES, ids=["Sao_Paulo", "Kolkata-NTZ"], scope="module")
def zoned(request: pytest.FixtureRequest, spark: SharedSpark) -> Iterator[SparkSession]:
    """A session in a zone of its own, of a process in another one, as neither the server nor a worker is."""
    environment = dict(os.environ)
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    worker = WorkerSpark(spark.link.session_url, str(uuid.uuid4()), request.param, __name__, lambda _: None)
    yield worker.session
    type(worker.session).stop(worker.session)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()


@pytest.fixture
def environment() -> Iterator[None]:
    """A test leaves the environment, and the zone of this process, as they were."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
    time.tzset()


def batch() -> list[Event]:
    """Events with these times, naive as events have them."""
    naive = [moment and moment.replace(tzinfo=None) for moment in TIMES]
    return [Event(offset, timestamp=moment) for offset, moment in enumerate(naive)]


def rows(session: SparkSession) -> DataFrame:
    return events_to_dataframe(session, batch()).select("topic", "partition", "offset", "timestamp")


def test_events_keep_their_times(zoned: SparkSession) -> None:
    frame = rows(zoned).orderBy("offset")
    assert frame.toArrow().column("timestamp").to_pylist() == TIMES
    # What Spark itself counts from, of which no zone is part.
    moments = [row[0] for row in frame.selectExpr("unix_micros(timestamp)").collect()]
    assert moments == [moment and (moment - _EPOCH) // timedelta(microseconds=1) for moment in TIMES]


def test_no_events_have_a_column_of_the_same_type(zoned: SparkSession) -> None:
    assert events_to_dataframe(zoned, []).dtypes == events_to_dataframe(zoned, batch()).dtypes


def test_parquet_files_have_these_times_for_any_reader(zoned: SparkSession, tmp_path: Path) -> None:
    (file,) = write_parquet(rows(zoned), tmp_path, batch())
    assert pq.ParquetFile(file).read().column("timestamp").to_pylist() == TIMES
    back = zoned.read.parquet(str(file)).orderBy("offset")
    assert back.toArrow().column("timestamp").to_pylist() == TIMES


def test_a_parquet_type_that_the_session_names_is_kept(zoned: SparkSession, tmp_path: Path) -> None:
    type_of_times = "spark.sql.parquet.outputTimestampType"
    zoned.conf.set(type_of_times, "TIMESTAMP_MILLIS")
    (file,) = write_parquet(rows(zoned), tmp_path, batch())
    zoned.conf.set(type_of_times, "TIMESTAMP_MICROS")
    assert pq.ParquetFile(file).schema_arrow.field("timestamp").type == pa.timestamp("ms", tz="UTC")


def test_a_table_has_these_times_in_utc(zoned: SparkSession, tmp_path: Path) -> None:
    frame = rows(zoned).selectExpr("*", "to_timestamp_ntz('2026-01-02 12:00:00') AS zoneless")
    assert write_table(frame, f"sqlite:///{tmp_path / 'rows.sqlite'}", "times", batch()) == len(TIMES)
    connection = sqlite3.connect(tmp_path / "rows.sqlite")
    found = connection.execute('SELECT timestamp, zoneless FROM times ORDER BY "offset"').fetchall()
    connection.close()
    assert [moment for moment, _ in found] == [
        moment and f"{moment.replace(tzinfo=None):%Y-%m-%d %H:%M:%S.%f}" for moment in TIMES
    ]
    assert {zoneless for _, zoneless in found} == {"2026-01-02 12:00:00.000000"}


def test_postgresql_takes_times_without_a_zone_for_utc_whatever_its_own_zone_is(databases: Databases) -> None:
    url = databases.create()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            sa.text(f"ALTER DATABASE \"{sa.make_url(url).database}\" SET timezone TO 'Asia/Tokyo'")
        )
    engine.dispose()
    (event,) = [event for event in batch() if event.offset == 3]
    row = {"topic": event.topic, "partition": 0, "offset": event.offset, "at": event.timestamp}
    write_table([row], url, "times", [event])
    own = 'topic TEXT, partition INT, "offset" BIGINT, at TIMESTAMP, PRIMARY KEY (topic, partition, "offset")'
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE TABLE own ({own})"))
    write_table([row], url, "own", [event])
    with engine.connect() as connection:
        (found,) = connection.execute(sa.text("SELECT at FROM times")).one()
        (in_own,) = connection.execute(sa.text("SELECT at FROM own")).one()
    engine.dispose()
    assert found == TIMES[3]
    assert in_own == event.timestamp


def test_ranges_have_the_times_that_events_have(zoned: SparkSession, broker: Broker) -> None:
    noon = 1767355200123
    # None at all; the first; the last that Python knows, and the one after it; microseconds by mistake.
    sent = [-1, 0, noon, 253402300799999, 253402300800000, noon * 1000]
    topic = topic_of_times(broker, sent)
    context = Context(zoned, {"kafka.bootstrap.servers": broker.bootstrap})
    frame = ranges_to_dataframe(context, [Range(topic, 0, 0, len(sent) - 1)]).orderBy("offset")
    kept = [_EPOCH + timedelta(milliseconds=ms) if 0 <= ms < 253402300800000 else None for ms in sent]
    assert frame.toArrow().column("timestamp").to_pylist() == kept
    assert frame.dtypes == ranges_to_dataframe(context, []).dtypes


def test_summaries_have_the_times_of_steps(zoned: SparkSession, tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'runs.sqlite'}")
    migrate(engine, MIGRATIONS)
    stored = Rows(engine)
    stored.run("r")
    stored.metric("r", "loss", [0.5, 0.25])
    assert refresh(zoned, engine, tmp_path / "summaries") == 2
    engine.dispose()
    files = [pq.ParquetFile(path) for path in (tmp_path / "summaries/curves").glob("*.parquet")]
    assert {file.schema_arrow.field("time").type for file in files} == {pa.timestamp("us", tz="UTC")}
    assert min(time for file in files for time in file.read().column("time").to_pylist()) == BEGAN
    assert pq.read_table(tmp_path / "summaries/runs").column("count").to_pylist() == [2]


@pytest.mark.spark
@pytest.mark.usefixtures("environment")
def test_udfs_are_in_utc_and_sql_in_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    with running_spark() as spark:
        worker = WorkerSpark(spark.link.session_url, str(uuid.uuid4()), {}, __name__, lambda _: None)
        frame = events_to_dataframe(worker.session, batch()[3:4])
        as_text = udf(lambda moment: f"{moment} {time.tzname[0]}", "string", useArrow=False)
        found = frame.select(as_text("timestamp"), frame.timestamp.cast("string")).first()
        type(worker.session).stop(worker.session)
    assert found == ("2026-01-02 12:00:00.123456 UTC", "2026-01-02 21:00:00.123456")


@pytest.mark.usefixtures("environment")
def test_a_handler_that_is_tested_is_in_utc_as_a_worker_is(
    spark: SharedSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handler(context: Any, event: Any) -> Any:
        frame = context.spark.createDataFrame(
            [(event.offset, event.timestamp)], "offset LONG, at TIMESTAMP_LTZ"
        )
        return time.tzname[0], frame.selectExpr("unix_millis(at)").first()[0]

    record = Record(b"", timestamp_ms=1767355200123)
    monkeypatch.delenv("TZ", raising=False)
    assert run_handler(handler, [record], spark=spark.link).results == [("UTC", 1767355200123)]
    assert "TZ" not in os.environ
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    assert run_handler(handler, [record], spark=spark.link).results == [("UTC", 1767355200123)]
    assert (os.environ["TZ"], time.tzname[0]) == ("Asia/Tokyo", "JST")

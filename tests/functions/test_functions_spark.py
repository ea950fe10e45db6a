"""headrace.functions.spark: from events to rows and to files, on a real Spark."""

import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import DataFrame, SparkSession
from spark import running_spark
from spark_events import NOON, Event, events

from headrace.functions.spark import events_to_dataframe, json_events_to_dataframe, parquet, write_parquet
from headrace.functions.spark.temporary_folder import sweep, temporary_folder
from headrace.runtime.worker.api.spark import WorkerSpark

WRITER = """
import sys, time
from pathlib import Path
from headrace.functions.spark.temporary_folder import temporary_folder
with temporary_folder(Path(sys.argv[1])) as folder:
    (folder / "rows").mkdir()
    print("writing", flush=True)
    time.sleep(60)
"""


def rows_of(session: SparkSession, batch: Sequence[Event]) -> DataFrame:
    frame = json_events_to_dataframe(session, batch, "n INT")
    return frame.selectExpr("topic", "partition", "offset", "record.n")


def stored(folder: Path) -> list[tuple[int, int, int]]:
    """Partition, offset and n of every row, as any reader of Parquet folders sees them."""
    table = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive").to_table()
    columns = (table.column(name).to_pylist() for name in ("partition", "offset", "n"))
    return sorted(zip(*columns, strict=True))


def expected(first: int, end: int, partition: int = 0) -> list[tuple[int, int, int]]:
    return [(partition, n, n) for n in range(first, end)]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_an_event_becomes_a_row_with_every_part_of_it(session: SparkSession) -> None:
    batch = [
        Event(7, b"\xff\x00", 3, "a.b", b"k", [("h", b"1"), ("h", None)]),
        Event(8, None, timestamp=None),
    ]
    frame = events_to_dataframe(session, batch)
    first, second = frame.collect()
    assert first.asDict(recursive=True) == {
        "key": b"k",
        "value": b"\xff\x00",
        "topic": "a.b",
        "partition": 3,
        "offset": 7,
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        "timestamp": first.timestamp,
    }
    assert (second.key, second.value, second.headers, second.timestamp) == (None, None, [], None)
    seconds = frame.selectExpr("unix_millis(timestamp)").first()
    assert seconds is not None
    assert seconds[0] == NOON.replace(tzinfo=UTC).timestamp() * 1000
    kinds = dict(frame.dtypes)
    assert kinds.pop("headers") == "array<struct<key:string,value:binary>>"
    assert kinds == {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
    }


def test_no_events_are_a_frame_with_no_rows(session: SparkSession) -> None:
    empty, full = events_to_dataframe(session, []), events_to_dataframe(session, events(0, 1))
    assert empty.dtypes == full.dtypes
    assert json_events_to_dataframe(session, [], "n INT").count() == 0


def test_json_that_does_not_fit_its_schema_stays_as_text(session: SparkSession) -> None:
    bodies = [b'{"n": 1, "s": "a"}', b'{"s": "b"}', b'{"n": "x", "s": "c"}', b"no json", b"", b"null", None]
    batch = [Event(offset, body) for offset, body in enumerate(bodies)]
    frame = json_events_to_dataframe(session, batch, "n INT, s STRING").orderBy("offset")
    found = [tuple(row) for row in frame.select("record.n", "record.s", "bad_record").collect()]
    assert found == [
        (1, "a", None),
        (None, "b", None),
        (None, "c", '{"n": "x", "s": "c"}'),
        (None, None, "no json"),
        (None, None, ""),
        (None, None, "null"),
        (None, None, None),
    ]


def test_a_batch_is_a_file_per_partition_and_replaces_itself(session: SparkSession, tmp_path: Path) -> None:
    folder, batch = tmp_path / "rows", [*events(5, 25), *events(0, 10, partition=1)]
    for _ in range(2):
        written = write_parquet(rows_of(session, batch), folder, batch)
        assert [path.relative_to(folder).parent.as_posix() for path in written] == [
            "topic=orders/partition=0",
            "topic=orders/partition=1",
        ]
        assert stored(folder) == expected(5, 25) + expected(0, 10, 1)
        assert files(folder) == sorted(f"{a:020}-{b:020}.parquet" for a, b in ((0, 10), (5, 25)))
    assert session.read.parquet(str(folder)).count() == 30


def test_a_batch_that_has_no_rows_any_more_leaves_none(session: SparkSession, tmp_path: Path) -> None:
    batch = events(0, 4)
    frame = rows_of(session, batch)
    assert len(write_parquet(frame, tmp_path, batch)) == 1
    assert write_parquet(frame.where("n > 9"), tmp_path, batch) == []
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("batches", "end", "count"),
    [
        ([(0, 20), (0, 10)], 20, 1),  # halved after its attempts were spent: it is there
        ([(0, 20), (10, 20)], 20, 1),
        ([(0, 5), (5, 9), (0, 20)], 20, 1),  # smaller ones give way
        ([(0, 20), (10, 30)], 30, 2),  # a group that was set back: only what is new
        ([(10, 30), (0, 20)], 30, 2),
    ],
)
def test_other_boundaries_show_no_row_twice(
    session: SparkSession, tmp_path: Path, batches: list[tuple[int, int]], end: int, count: int
) -> None:
    for boundaries in batches:
        batch = events(*boundaries)
        write_parquet(rows_of(session, batch), tmp_path, batch)
    assert stored(tmp_path) == expected(0, end)
    assert len(files(tmp_path)) == count


def test_what_a_killed_writer_left_is_swept_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        sweep.cache_clear()
        with temporary_folder(tmp_path):
            assert len(list(tmp_path.iterdir())) == 2
        writer.send_signal(signal.SIGKILL)
    assert len(list(tmp_path.iterdir())) == 1
    sweep.cache_clear()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_nothing(session: SparkSession, tmp_path: Path) -> None:
    frame = rows_of(session, events(0, 4)).selectExpr("*", "CAST(raise_error('no') AS INT) AS x")
    with pytest.raises(Exception, match="no"):
        write_parquet(frame, tmp_path, events(0, 4))
    assert list(tmp_path.iterdir()) == []


def test_files_that_can_not_be_looked_for_are_not_taken_for_none(tmp_path: Path) -> None:
    assert parquet._existing(tmp_path / "missing") == []
    with pytest.raises(OSError, match="File name too long"):
        parquet._existing(tmp_path / ("x" * 256))


def test_rows_that_can_not_be_placed_are_refused(session: SparkSession, tmp_path: Path) -> None:
    batch = events(0, 2)
    frame = rows_of(session, batch)
    with pytest.raises(ValueError, match="no column offset, by which"):
        write_parquet(frame.drop("offset"), tmp_path, batch)
    with pytest.raises(ValueError, match="s3a://orders is no folder"):
        write_parquet(frame, "s3a://orders", batch)
    with pytest.raises(ValueError, match=r"topic=orders/partition=7, which the batch has no event of"):
        write_parquet(frame.selectExpr("topic", "7 AS partition", "offset"), tmp_path, batch)
    assert files(tmp_path) == []


@pytest.mark.parametrize("few", [0, 100])
def test_a_partition_has_one_file_whether_or_not_the_rows_are_shuffled(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(parquet, "_FEW", few)
    batch = [*events(0, 5), *events(3, 6, 1), *events(8, 9, 2)]
    written = write_parquet(rows_of(session, batch).repartition(3), tmp_path, batch)
    assert len(written) == len(files(tmp_path)) == 3
    assert stored(tmp_path) == [*expected(0, 5), *expected(3, 6, 1), *expected(8, 9, 2)]


@pytest.mark.full
@pytest.mark.usefixtures("session")  # it leaves the environment as it was
def test_more_batches_than_the_server_has_memory_for_leave_nothing_there() -> None:
    conf = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:MaxDirectMemorySize=64m"}
    batch = [replace(event, body=bytes(2000)) for event in events(0, 4000)]  # 8 MB
    with running_spark({"conf": conf}) as spark:
        worker = WorkerSpark(spark.link.session_url, str(uuid.uuid4()), {}, __name__, lambda _: None)
        for _ in range(20):
            assert events_to_dataframe(worker.session, batch).count() == len(batch)
        assert not spark.restarts

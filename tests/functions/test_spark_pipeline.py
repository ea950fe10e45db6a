"""functions/spark_pipeline: its settings, and orders through it on real Kafka and real Spark."""

import asyncio
import json
import os
import signal
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
import yaml
from aiokafka import AIOKafkaProducer
from broker import Broker
from pyspark.sql import SparkSession
from replica import QUICK_GROUP, replica, wait_until
from root import ROOT
from spark import SharedSpark

from headrace.functions.spark.temporary_folder import sweep
from headrace.functions.spark_pipeline.handler import Pipeline
from headrace.functions.spark_pipeline.settings import PipelineError, read_settings
from headrace.runtime.config.function_reader import load_function

FOLDER = ROOT / "functions/spark_pipeline"
SCHEMA = "id STRING, country STRING, amount DOUBLE, at TIMESTAMP"
COUNTRIES = ("DE", "FR", None)
COUNT = 1200


def pipeline(tmp_path: Path, **env: str) -> Pipeline:
    places = {
        "PIPELINE_PARQUET": str(tmp_path / "rows"),
        "PIPELINE_DATABASE": f"sqlite:///{tmp_path / 'totals.sqlite'}",
    }
    return Pipeline(read_settings({"PIPELINE_SCHEMA": SCHEMA, **places, **env}))


def write_function(folder: Path, broker: Broker, topic: str, spark: SharedSpark) -> Path:
    """The function.yaml as it comes, with a broker, a Spark and places of this test's own."""
    function: dict[str, Any] = yaml.safe_load((FOLDER / "function.yaml").read_text())
    spec = function["spec"]
    spec["spark"] = {"remote": spark.link.url, "token": spark.link.token}
    own = {
        "PIPELINE_PARQUET": str(folder / "rows"),
        "PIPELINE_DATABASE": f"sqlite:///{folder / 'totals.sqlite'}",
    }
    for entry in spec["env"]:
        entry["value"] = own.get(entry["name"], entry["value"])
    attributes = {"topics": [topic], "brokers": [broker.bootstrap], "consumerGroup": topic, **QUICK_GROUP}
    spec["triggers"]["orders"] |= {"attributes": attributes}
    spec["triggers"]["orders"]["batch"] |= {"batchSize": 200, "timeout": "200ms"}
    folder.mkdir()
    (folder / "function.yaml").write_text(yaml.safe_dump(function))
    return folder


def order(number: int) -> dict[str, Any]:
    at = f"2026-01-02T12:{number // 60 % 60:02}:{number % 60:02}Z"
    return {"id": str(number), "country": COUNTRIES[number % 3], "amount": 0.5 * number, "at": at}


def produce_orders(broker: Broker, topic: str, numbers: range, *others: bytes) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=20) as producer:
            for number in numbers:
                await producer.send(topic, json.dumps(order(number)).encode(), partition=number % 8)
            for other in others:
                await producer.send(topic, other, partition=0)
            await producer.flush()

    asyncio.run(send())


def parquet_ids(folder: Path) -> list[str]:
    try:
        table = pyarrow.dataset.dataset(folder / "rows", format="parquet", partitioning="hive").to_table()
    except FileNotFoundError:  # replaced while it was read
        return []
    return [value for value in table.column("id").to_pylist() if value is not None]


def totals(folder: Path) -> dict[tuple[str, str], tuple[int, float]]:
    """Orders and amount by window and country, added up as README.md says."""
    query = (
        "SELECT window_start, country, sum(orders), sum(amount) FROM totals GROUP BY window_start, country"
    )
    connection = sqlite3.connect(folder / "totals.sqlite", timeout=30)
    try:
        return {(start[:16], country): (n, amount) for start, country, n, amount in connection.execute(query)}
    finally:
        connection.close()


def expected_totals(numbers: range) -> dict[tuple[str, str], tuple[int, float]]:
    orders, amounts = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for number in numbers:
        key = (f"2026-01-02 12:{number // 60 % 60:02}", COUNTRIES[number % 3] or "")
        orders[key] += 1
        amounts[key] += number  # of halves
    return {key: (count, amounts[key] / 2) for key, count in orders.items()}


def test_each_order_counts_once_in_both_sinks_whatever_is_killed(
    broker: Broker, topic: str, spark: SharedSpark, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", broker, topic, spark)
    with replica(folder) as running:
        running.wait_ready()
        produce_orders(broker, topic, range(COUNT // 2), b"no order")
        # Once: a second death in the same batch has its records go one by one.
        wait_until(lambda: "batch written" in running.log, about=running)
        wait_until(lambda: list((folder / "rows").glob(".writing-*")), about=running)
        os.kill(running.worker_pids()[0], signal.SIGKILL)
        produce_orders(broker, topic, range(COUNT // 2, COUNT))
        wait_until(lambda: len(parquet_ids(folder)) >= COUNT, about=running)
        wait_until(lambda: sum(n for n, _ in totals(folder).values()) >= COUNT, about=running)
        assert running.stop() == 0
    assert sorted(parquet_ids(folder), key=int) == [str(number) for number in range(COUNT)]
    assert totals(folder) == expected_totals(range(COUNT))
    sweep.__wrapped__(folder / "rows")  # as the next process does that writes there
    assert not list((folder / "rows").glob(".writing-*"))


def test_the_function_that_comes_with_it_is_valid() -> None:
    function = load_function(FOLDER)
    assert function.spark is not None
    assert not function.notices
    read_settings(function.env)


@pytest.mark.parametrize(
    ("env", "line"),
    [
        ({"PIPELINE_SCHEMA": ""}, "PIPELINE_SCHEMA is not set; write a record's fields"),
        ({"PIPELINE_SQ": "x"}, "PIPELINE_SQ is no setting of the pipeline; the nearest is PIPELINE_SQL"),
        ({"PIPELINE_SQL": "x", "PIPELINE_SQL_FILE": __file__}, "are both set; keep one"),
        ({"PIPELINE_SQL_FILE": "rows.sql"}, "PIPELINE_SQL_FILE: rows.sql cannot be read"),
        ({"PIPELINE_SCHEMA": "id STING"}, "PIPELINE_SCHEMA: "),
        ({"PIPELINE_SQL": "SELEC 1"}, "PIPELINE_SQL: "),
        ({"PIPELINE_SQL": "SELECT record.name FROM records"}, "PIPELINE_SQL: "),
        ({"PIPELINE_SQL": "SELECT record.id FROM records"}, "PIPELINE_SQL gives no column topic, partition"),
        ({"PIPELINE_WINDOW": "1 minuet"}, "PIPELINE_WINDOW"),
        ({"PIPELINE_WINDOW_BY": "land"}, "PIPELINE_WINDOW"),
        ({"PIPELINE_PARQUET": "s3a://rows"}, "PIPELINE_PARQUET: s3a://rows is no folder"),
        ({"PIPELINE_DATABASE": "nowhere"}, "PIPELINE_DATABASE: "),
        ({"PIPELINE_DATABASE": "mysql://localhost/x"}, "PIPELINE_DATABASE: mysql is no database"),
    ],
)
def test_a_mistake_is_one_line_that_names_its_setting(
    session: SparkSession, tmp_path: Path, env: dict[str, str], line: str
) -> None:
    with pytest.raises(PipelineError) as raised:
        pipeline(tmp_path, **env).check(session)
    assert line in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_what_is_wrong_with_the_environment_is_said_at_once() -> None:
    with pytest.raises(PipelineError) as raised:
        read_settings({"PIPELINE_SQL_FILE": "rows.sql", "PIPELINE_TABEL": "x"})
    assert len(str(raised.value).splitlines()) == 3


def test_the_query_may_stand_in_a_file_beside_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.sql").write_text("SELECT 1;\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert read_settings({"PIPELINE_SCHEMA": SCHEMA, "PIPELINE_SQL_FILE": "rows.sql"}).query == "SELECT 1"


def test_defaults_are_enough(session: SparkSession, tmp_path: Path) -> None:
    pipeline(tmp_path).check(session)

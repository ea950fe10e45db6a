"""`headrace.testing` for handlers with Spark, on a real server; ranges are read from a real broker."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from broker import Broker
from kafka_records import produce
from root import ROOT
from spark import QUICK, SharedSpark

from headrace.functions.spark import ranges_to_dataframe
from headrace.testing import Range, run_handler, spark_server

ORDER = b'{"id": "1", "item": "cup", "quantity": 2, "price": 4.5}'


@pytest.mark.full
@pytest.mark.processes
@pytest.mark.spark
def test_a_server_for_tests_is_started_and_has_a_handler_count() -> None:
    def handler(context: Any, event: Any) -> int:
        return int(context.spark.range(int(event.body)).count())

    with spark_server(conf=QUICK["conf"]) as server:
        assert run_handler(handler, [b"7", b"8"], spark=server).results == [7, 8]
        assert run_handler(handler, [b"9"], spark=server).results == [9]  # in a session of its own


def test_the_spark_example_is_tested_as_its_users_would(
    spark: SharedSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORDERS_FOLDER", str(tmp_path / "orders"))
    monkeypatch.syspath_prepend(ROOT / "examples/spark_orders")
    monkeypatch.delitem(sys.modules, "orders", raising=False)
    orders = importlib.import_module("orders")
    run = run_handler(orders.handler, [ORDER, b"{"], is_batch=True, spark=spark.link)
    assert run.failures == []
    rows = pq.read_table(tmp_path / "orders").sort_by("offset").to_pylist()
    assert [row["total"] for row in rows] == [9.0, None]


def test_ranges_are_read_from_the_broker_that_source_options_name(
    spark: SharedSpark, broker: Broker, topic: str
) -> None:
    produce(broker, topic, 80)

    def handler(context: Any, ranges: Any) -> None:
        rows = ranges_to_dataframe(context, ranges).select("offset").collect()
        context.user_data.offsets = sorted(row.offset for row in rows)

    options = {"kafka.bootstrap.servers": broker.bootstrap}
    run = run_handler(handler, [Range(2, 5, topic, 3)], spark=spark.link, source_options=options)
    assert (run.failures, run.context.user_data.offsets) == ([], [2, 3, 4, 5])

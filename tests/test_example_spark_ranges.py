"""examples/spark_ranges, as its README says it."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from replica import Replica, wait_until
from test_example_spark_orders import orders, produce, rows

FOLDER = Path(__file__).parent.parent / "examples/spark_ranges"
COUNT = 400


def test_every_order_counts_once_even_if_a_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "totals.parquet"
    monkeypatch.setenv("TOTALS_FOLDER", str(table))
    running = Replica(FOLDER, tmp_path / "replica.txt", "--embedded-kafka")
    try:
        wait_until(lambda: "embedded Kafka at" in running.log, about=running)
        address = running.log.split("embedded Kafka at ")[1].split()[0]
        running.wait_ready()
        produce(address, *orders(range(COUNT)), "tea, please")
        wait_until(lambda: list(table.glob("topic=orders/*/*.parquet")), about=running)
        os.kill(running.worker_pids()[0], signal.SIGKILL)
        produce(address, *orders(range(COUNT, 2 * COUNT)))
        wait_until(lambda: totals(table)["orders"] >= 2 * COUNT, about=running)
        assert totals(table) == {"orders": 2 * COUNT, "total": sum(range(2 * COUNT)) * 2.5}
        assert {row["item"] for row in rows(table)} == {"tea"}
        assert running.stop() == 0
    finally:
        running.kill()


def totals(table: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows(table):
        found.update(orders=row["orders"], total=row["total"])
    return found


def test_the_readme_is_short_and_names_what_is_there() -> None:
    text = (FOLDER / "README.md").read_text()
    assert len(text.splitlines()) <= 15
    assert len((FOLDER / "totals.py").read_text().splitlines()) <= 40
    assert all(name in text for name in ("totals.py", "function.yaml", "--embedded-kafka"))

"""examples/spark_orders, as its README says it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from replica import Replica, wait_until

FOLDER = Path(__file__).parent.parent / "examples/spark_orders"
COUNT = 400


def test_every_order_is_one_row_even_if_a_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "orders.parquet"
    monkeypatch.setenv("ORDERS_FOLDER", str(table))
    running = Replica(FOLDER, tmp_path / "replica.txt", "--embedded-kafka")
    try:
        wait_until(lambda: "embedded Kafka at" in running.log, about=running)
        address = running.log.split("embedded Kafka at ")[1].split()[0]
        running.wait_ready()
        produce(address, *orders(range(COUNT)), "tea, please")
        wait_until(lambda: list(table.glob("topic=orders/*/*.parquet")), about=running)
        os.kill(running.worker_pids()[0], signal.SIGKILL)
        produce(address, *orders(range(COUNT, 2 * COUNT)))
        wait_until(lambda: len(rows(table)) > 2 * COUNT, about=running)
        found = rows(table)
        assert sorted(row["id"] for row in found if row["id"]) == [f"{n:04}" for n in range(2 * COUNT)]
        assert [row["bad_record"] for row in found if not row["id"]] == ["tea, please"]
        assert all(row["total"] == int(row["id"]) * 2.5 for row in found if row["id"])
        assert running.stop() == 0
    finally:
        running.kill()


def orders(numbers: range) -> list[str]:
    return [json.dumps({"id": f"{n:04}", "item": "tea", "quantity": n, "price": 2.5}) for n in numbers]


def produce(address: str, *lines: str) -> None:
    command = [sys.executable, "-P", "-m", "headrace", "kafka", "produce", "--brokers", address]
    body = "".join(f"{line}\n" for line in lines).encode()
    subprocess.run([*command, "--topic", "orders"], input=body, check=True, capture_output=True)


def rows(folder: Path) -> list[dict[str, Any]]:
    """A reader that comes across a file that is being replaced has to look again."""
    try:
        found = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive").to_table()
    except FileNotFoundError:
        return []
    return list(found.to_pylist())


def test_the_readme_is_short_and_names_what_is_there() -> None:
    text = (FOLDER / "README.md").read_text()
    assert len(text.splitlines()) <= 15
    assert len((FOLDER / "orders.py").read_text().splitlines()) <= 40
    assert all(name in text for name in ("orders.py", "function.yaml", "--embedded-kafka"))

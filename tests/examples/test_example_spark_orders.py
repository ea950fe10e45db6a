"""examples/spark_orders, as its README says it."""

from pathlib import Path

import pytest
from example_orders import COUNT, orders_through_a_kill, rows
from replica import wait_until
from root import ROOT

FOLDER = ROOT / "examples/spark_orders"


@pytest.mark.spark
@pytest.mark.full
def test_every_order_is_one_row_even_if_a_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "orders.parquet"
    monkeypatch.setenv("ORDERS_FOLDER", str(table))
    monkeypatch.setenv("HEADRACE_PASS_ENV", "ORDERS_FOLDER")
    with orders_through_a_kill(FOLDER, table) as running:
        wait_until(lambda: len(rows(table)) > COUNT, about=running)
        found = rows(table)
        assert sorted(row["id"] for row in found if row["id"]) == [f"{n:04}" for n in range(COUNT)]
        assert [row["bad_record"] for row in found if not row["id"]] == ["tea, please"]
        assert all(row["total"] == int(row["id"]) * 2.5 for row in found if row["id"])


def test_the_readme_is_short_and_names_what_is_there() -> None:
    text = (FOLDER / "README.md").read_text()
    assert len(text.splitlines()) <= 15
    assert len((FOLDER / "orders.py").read_text().splitlines()) <= 40
    assert all(name in text for name in ("orders.py", "function.yaml", "--embedded-kafka"))

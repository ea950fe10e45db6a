"""examples/spark_ranges, as its README says it."""

from collections import Counter
from pathlib import Path

import pytest
from example_orders import COUNT, orders_through_a_kill, rows
from replica import wait_until
from root import ROOT

FOLDER = ROOT / "examples/spark_ranges"


@pytest.mark.spark
@pytest.mark.full
def test_every_order_counts_once_even_if_a_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "totals.parquet"
    monkeypatch.setenv("TOTALS_FOLDER", str(table))
    monkeypatch.setenv("HEADRACE_PASS_ENV", "TOTALS_FOLDER")
    with orders_through_a_kill(FOLDER, table) as running:
        wait_until(lambda: totals(table)["orders"] >= COUNT, about=running)
        assert totals(table) == {"orders": COUNT, "total": sum(range(COUNT)) * 2.5}
        assert {row["item"] for row in rows(table)} == {"tea"}


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

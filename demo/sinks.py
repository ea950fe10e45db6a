"""Sinks of the demo, read by other libraries than wrote them, and compared with what was produced."""

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset
from orders import Orders
from totals import Totals, totals_of


@dataclass(frozen=True, slots=True)
class Comparison:
    """Numbers of orders in Parquet, and of windows in the table, that are right or wrong."""

    produced: int
    lost: int
    doubled: int
    wrong: int
    windows: int
    wrong_windows: int

    @property
    def is_equal(self) -> bool:
        """Whether the sinks hold exactly what was produced."""
        return not (self.lost or self.doubled or self.wrong or self.wrong_windows)

    def __str__(self) -> str:
        return (
            f"{self.produced:,} orders produced; in Parquet {self.lost:,} lost, {self.doubled:,} doubled, "
            f"{self.wrong:,} wrong; in the table {self.wrong_windows:,} of {self.windows:,} totals wrong"
        )


class Sinks:
    """The Parquet folder and the database that function.yaml names, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._parquet = folder / "orders.parquet"
        self._database = folder / "orders.sqlite"

    def count(self) -> int:
        """Return how many orders are in both sinks: a batch's totals are written last."""
        if not self._database.exists():
            return 0
        with closing(sqlite3.connect(self._database, timeout=10)) as database:
            has_table = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'totals'").fetchone()
            return database.execute("SELECT sum(orders) FROM totals").fetchone()[0] or 0 if has_table else 0

    def totals(self) -> Totals:
        """Return the table's totals, the rows of each window added up."""
        query = (
            "SELECT window_start, product, sum(orders), sum(amount) FROM totals GROUP BY 1, 2 ORDER BY 1, 2"
        )
        with closing(sqlite3.connect(self._database, timeout=10)) as database:
            return {
                (datetime.fromisoformat(start).replace(tzinfo=UTC), product): (orders, amount)
                for start, product, orders, amount in database.execute(query)
            }

    def compare(self, orders: Orders) -> Comparison:
        """Compare Parquet row by row, and the table window by window."""
        ids = {place: order.id for place, order in orders.acked.items()}
        rows = self._rows()
        times = Counter(place for place, _ in rows)
        expected, found = totals_of(orders.acked.values()), self.totals()
        windows = expected.keys() | found.keys()
        return Comparison(
            produced=len(ids),
            lost=len(ids.keys() - times.keys()),
            doubled=len(rows) - len(times),
            wrong=sum(ids.get(place) != id_ for place, id_ in rows),
            windows=len(windows),
            wrong_windows=sum(expected.get(window) != found.get(window) for window in windows),
        )

    def _rows(self) -> list[tuple[tuple[int, int], int]]:
        """Return partition, offset and id of each row."""
        if not self._parquet.exists():
            return []
        dataset = pyarrow.dataset.dataset(self._parquet, format="parquet", partitioning="hive")
        columns = dataset.to_table(["partition", "offset", "id"])
        partitions, offsets, ids = (column.to_pylist() for column in columns)
        return list(zip(zip(partitions, offsets, strict=True), ids, strict=True))

"""headrace.functions.tables, on SQLite; on PostgreSQL too where HEADRACE_TEST_DATABASE names one."""

import os
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from spark_events import Event, events

from headrace.functions.tables import _engine, write_table

POSTGRESQL = os.environ.get("HEADRACE_TEST_DATABASE", "")
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture(params=["sqlite", *(["postgresql"] if POSTGRESQL else [])])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database."""
    address = POSTGRESQL if request.param == "postgresql" else f"sqlite:///{tmp_path / 'rows.sqlite'}"
    yield address
    _engine(address).dispose()


@pytest.fixture
def table() -> str:
    """A name of this test's own."""
    return f"rows_{uuid.uuid4().hex}"


def row(offset: int, **more: object) -> dict[str, Any]:
    return {"topic": "orders", "partition": 0, "offset": offset, **more}


def stored(url: str, table: str, columns: str = '"offset", n') -> list[tuple[Any, ...]]:
    with _engine(url).connect() as connection:
        return [
            tuple(found) for found in connection.execute(sa.text(f"SELECT {columns} FROM {table} ORDER BY 1"))
        ]


def test_a_row_with_the_same_place_is_replaced(url: str, table: str) -> None:
    assert write_table([row(1, n=1), row(2, n=2)], url, table) == 2
    assert write_table([row(2, n=3), row(3, n=4)], url, table) == 2
    assert stored(url, table) == [(1, 1), (2, 3), (3, 4)]


def test_a_batch_replaces_all_that_it_wrote_and_nothing_else(url: str, table: str) -> None:
    write_table([row(n, n=n) for n in range(10)], url, table, events(0, 10))
    again = [*events(2, 4), *events(6, 8)]
    write_table([row(3, n=33)], url, table, again)
    assert stored(url, table) == [(n, n) for n in (0, 1)] + [(3, 33), (4, 4), (5, 5), (8, 8), (9, 9)]


def test_totals_of_a_batch_that_comes_again_in_parts_add_up_to_the_same(url: str, table: str) -> None:
    for first, end in ((0, 10), (0, 5), (5, 6), (6, 10)):
        groups = {n % 2: [m for m in range(first, end) if m % 2 == n % 2] for n in range(first, end)}
        totals = [row(members[0], n=len(members)) for members in groups.values()]
        write_table(totals, url, table, events(first, end))
    assert sum(n for _, n in stored(url, table)) == 10


def test_a_batch_with_no_rows_any_more_leaves_none(url: str, table: str) -> None:
    write_table([row(1, n=1)], url, table, events(1, 2))
    assert (
        write_table(Frame(pa.table({"topic": [], "partition": [], "offset": []})), url, table, events(1, 2))
        == 0
    )
    assert stored(url, table) == []
    assert write_table([], url, table) == 0


def test_rows_of_a_key_alone_may_come_again(url: str, table: str) -> None:
    for _ in range(2):
        write_table([row(1)], url, table)
    assert stored(url, table, '"offset", topic') == [(1, "orders")]


def test_a_key_may_have_more_columns(url: str, table: str) -> None:
    key = ("topic", "partition", "offset", "n")
    write_table([row(1, n=1), row(1, n=2)], url, table, key=key)
    assert stored(url, table) == [(1, 1), (1, 2)]


def test_each_kind_of_value_has_a_column(url: str, table: str) -> None:
    values = {
        "s": "ä",
        "f": 1.5,
        "b": True,
        "x": b"\0",
        "d": date(2026, 1, 2),
        "m": Decimal("1.25"),
        "t": NOON,
    }
    write_table([row(1, **values, nothing=None)], url, table)
    columns = sa.inspect(_engine(url)).get_columns(table)
    kinds = {column["name"]: type(column["type"]).__name__.upper() for column in columns}
    assert [kinds[name] for name in ("topic", "partition", "nothing")] == ["TEXT", "BIGINT", "TEXT"]
    ((s, f, b, x, d, m, t),) = stored(url, table, "s, f, b, x, d, m, t")
    assert (s, f, bool(b), bytes(x), str(d), float(m)) == ("ä", 1.5, True, b"\0", "2026-01-02", 1.25)
    assert str(t).startswith("2026-01-02 12:00:00")


def test_what_no_column_holds_is_named(url: str, table: str) -> None:
    with pytest.raises(ValueError, match=r"column tags is list<.*use to_json\(tags\)"):
        write_table([row(1, tags=["a"])], url, table)
    with pytest.raises(ValueError, match="no column partition, offset, which is in the key"):
        write_table([{"topic": "orders"}], url, table)


def test_other_databases_are_refused() -> None:
    with pytest.raises(ValueError, match="is no database for write_table; use sqlite or postgresql"):
        write_table([row(1)], "mysql://nobody@localhost/x", "t")


class Frame:
    """A frame with what write_table uses of a DataFrame."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def toArrow(self) -> pa.Table:  # noqa: N802  # Spark's name
        return self._table


def test_times_are_stored_as_utc(url: str, table: str) -> None:
    zoned = pa.array([NOON], pa.timestamp("us", tz="Europe/Berlin"))
    frame = Frame(pa.table({"topic": ["a"], "partition": [0], "offset": [1], "t": zoned}))
    write_table(frame, url, table, [Event(1)])
    ((_, found),) = stored(url, table, '"offset", t')
    assert str(found).startswith("2026-01-02 12:00:00")

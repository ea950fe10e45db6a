"""Statements that write many rows at once, for either database."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from headrace.functions.run_tracking.store.tables import RUN_TABLES, RUNS, TOMBSTONES

Row = tuple[Any, ...]


# eq=False: each is a constant of some module and is found by its identity in Upserts.
@dataclass(frozen=True, slots=True, eq=False)
class Upsert:
    """An insert into `table`, and what happens to rows that exist.

    Rows are tuples with a value for each of `columns`, by default all.
    """

    table: sa.Table
    update: Sequence[str] = ()
    """Columns that an existing row gets from the new one; it keeps all others."""
    where: Callable[[Any], Any] | None = None
    """Condition, made from the new row, on which an existing row is updated."""
    columns: Sequence[str] = ()

    @property
    def names(self) -> Sequence[str]:
        return self.columns or tuple(self.table.c.keys())


class Upserts:
    """Runs upserts on one kind of database, building each statement once."""

    def __init__(self, dialect: str) -> None:
        self._is_postgresql = dialect == "postgresql"
        self._statements: dict[Upsert, Any] = {}

    def write(self, connection: sa.Connection, upsert: Upsert, rows: Iterable[Row]) -> None:
        """Write rows, no two of which may have the same key."""
        rows = list(rows)
        if not rows:
            return
        statement = self._statements.get(upsert)
        if statement is None:
            statement = self._statements[upsert] = self._statement(upsert)
        names = upsert.names
        if self._is_postgresql:
            # One statement with an array for each column: PostgreSQL parses and plans once for all rows.
            columns = map(list, zip(*rows, strict=True))
            connection.execute(statement, dict(zip(names, columns, strict=True)))
        else:
            # SQLite has no arrays, and in the same process a statement for each row costs no round trip.
            connection.execute(statement, [dict(zip(names, row, strict=True)) for row in rows])

    def _statement(self, upsert: Upsert) -> Any:
        table, names = upsert.table, upsert.names
        if self._is_postgresql:
            arrays = [sa.bindparam(name, type_=postgresql.ARRAY(table.c[name].type)) for name in names]
            rows_table = sa.func.unnest(*arrays).table_valued(*names).render_derived()
            insert: Any = postgresql.insert(table).from_select(names, sa.select(rows_table))
        else:
            insert = sqlite.insert(table).values({name: sa.bindparam(name) for name in names})
        if not upsert.update:
            return insert.on_conflict_do_nothing()
        return insert.on_conflict_do_update(
            index_elements=list(table.primary_key),
            set_={name: insert.excluded[name] for name in upsert.update},
            where=upsert.where(insert.excluded) if upsert.where else None,
        )


_TOMBSTONES = Upsert(TOMBSTONES)


def delete_run(connection: sa.Connection, upserts: Upserts, run_id: str) -> None:
    """Delete a run with all its rows, and leave a tombstone, so that later messages have no effect.

    The run's row is deleted before those that belong to it: a transaction that adds to the run has locked
    that row, and is waited for.
    """
    upserts.write(connection, _TOMBSTONES, [(run_id, datetime.now(UTC))])
    connection.execute(sa.delete(RUNS).where(RUNS.c.id == run_id))
    for table in RUN_TABLES:
        connection.execute(sa.delete(table).where(table.c.run_id == run_id))

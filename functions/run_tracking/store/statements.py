"""Many rows into a table at once, whichever the database."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from headrace.functions.run_tracking.store.tables import OF_RUNS, RUNS, TOMBSTONES

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Upsert:
    """What becomes of rows. Rows are tuples, a value for each of `columns`, which are all by default."""

    table: sa.Table
    update: Sequence[str] = ()
    """Columns that a row which is there already gets anew; it keeps all others."""
    where: Callable[[Any], Any] | None = None
    """Of the new row: whether it gets them."""
    columns: Sequence[str] = ()

    @property
    def names(self) -> Sequence[str]:
        return self.columns or tuple(self.table.c.keys())


class Upserts:
    """Statements for one kind of database, each made once."""

    def __init__(self, dialect: str) -> None:
        self._is_postgresql = dialect == "postgresql"
        self._statements: dict[Upsert, Any] = {}

    def write(self, connection: sa.Connection, upsert: Upsert, rows: Iterable[Row]) -> None:
        """No two rows may have the same key."""
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
            connection.execute(statement, [dict(zip(names, row, strict=True)) for row in rows])

    def _statement(self, upsert: Upsert) -> Any:
        table, names = upsert.table, upsert.names
        if self._is_postgresql:
            arrays = [sa.bindparam(name, type_=postgresql.ARRAY(table.c[name].type)) for name in names]
            given = sa.func.unnest(*arrays).table_valued(*names).render_derived()
            insert: Any = postgresql.insert(table).from_select(names, sa.select(given))
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
    """All of it, and what comes later of it has no effect.

    The run goes before what hangs on it: who adds to it at the same time holds its row, and is waited for.
    """
    upserts.write(connection, _TOMBSTONES, [(run_id, datetime.now(UTC))])
    connection.execute(sa.delete(RUNS).where(RUNS.c.id == run_id))
    for table in OF_RUNS:
        connection.execute(sa.delete(table).where(table.c.run_id == run_id))

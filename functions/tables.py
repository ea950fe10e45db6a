"""Table sink for batches: SQLite or PostgreSQL, through SQLAlchemy (`headrace[sql]`)."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from headrace.functions.events import Event, runs_of
from headrace.functions.extras import MissingExtraError

try:
    import pyarrow as pa
    import sqlalchemy as sa
    from pyarrow import types
    from sqlalchemy.dialects import postgresql, sqlite
except ModuleNotFoundError as error:
    raise MissingExtraError("functions/tables.py", "sql", str(error.name)) from None

_KEY = ("topic", "partition", "offset")
_INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_BUSY_SECONDS = 30  # how long to wait for another worker's transaction on the same SQLite file


class Frame(Protocol):
    """A Spark DataFrame, as far as it is used here."""

    def toArrow(self) -> Any: ...  # noqa: N802  # Spark's name


def write_table(
    rows: Frame | Sequence[Mapping[str, Any]],
    url: str,
    table: str,
    events: Sequence[Event] = (),
    key: Sequence[str] = _KEY,
) -> int:
    """Write the rows that were made of `events` to `table`, in one transaction; return how many.

    `rows` are dicts or a Spark DataFrame, whose rows pass through this process. `url` is SQLAlchemy's:
    sqlite:///orders.sqlite, postgresql+psycopg://user@host/db. `key` names the columns that tell rows apart:
    a row whose key exists is replaced. With `events`, all rows with the topic, partition and offset of one of
    them are deleted first, so that a batch replaces everything that it wrote before; a row that stands for
    several records has the lowest of their offsets.

    The table is created from the rows if it is missing; its columns are never changed. Times are UTC; those
    without a zone, as `event.timestamp` is, are taken for it.
    Raises ValueError for a type that no column can hold and for missing key columns, and SQLAlchemy's errors.
    """
    data = rows if isinstance(rows, Sequence) else rows.toArrow()
    data = _in_utc(pa.Table.from_pylist(list(data)) if isinstance(data, Sequence) else data)
    if not data.num_columns:  # no rows, so no columns are known
        return 0
    if missing := [name for name in key if name not in data.column_names]:
        raise ValueError(f"the rows have no column {', '.join(missing)}, which is in the key of {table}")
    engine = _engine(url)
    target = _table(table, data.schema, key)
    _create(engine, target)
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            # Else it would put times into columns without a zone as they are in the zone of its session.
            connection.execute(sa.text("SET LOCAL TIME ZONE 'UTC'"))
        # Rows of the batch are deleted by their offsets first: a redelivered batch may make fewer rows than
        # before, and an upsert alone would leave the others.
        for run in runs_of(events):
            place = (target.c.topic == run.topic) & (target.c.partition == run.partition)
            own = (target.c.offset >= run.first) & (target.c.offset < run.end)
            connection.execute(sa.delete(target).where(place & own))
        if data.num_rows:
            connection.execute(_upsert(engine.dialect.name, target), data.to_pylist())
    return int(data.num_rows)


def _upsert(dialect: str, table: sa.Table) -> Any:
    insert = _INSERTS[dialect](table)
    key = [column.name for column in table.primary_key]
    values = {column.name: insert.excluded[column.name] for column in table.c if column.name not in key}
    # A row of key columns alone has nothing to update, and DO UPDATE needs a column.
    return (
        insert.on_conflict_do_update(index_elements=key, set_=values)
        if values
        else insert.on_conflict_do_nothing()
    )


# One pool of connections for each address, as long as the worker lives.
@functools.cache
def _engine(url: str) -> sa.Engine:
    kind = sa.make_url(url).get_backend_name()
    if kind not in _INSERTS:
        raise ValueError(f"{kind} is no database for write_table; use sqlite or postgresql")
    return sa.create_engine(url, connect_args={"timeout": _BUSY_SECONDS} if kind == "sqlite" else {})


def _create(engine: sa.Engine, table: sa.Table) -> None:
    """Create the table if it is missing. Two workers may find it missing at once."""
    try:
        table.create(engine, checkfirst=True)
    except sa.exc.DBAPIError:
        # If it is there now, another worker has created it in between.
        if not sa.inspect(engine).has_table(table.name):
            raise


def _table(name: str, schema: pa.Schema, key: Sequence[str]) -> sa.Table:
    # All names are quoted: SQLAlchemy doesn't know every reserved word.
    columns = [
        sa.Column(
            field.name, _column_type(field), primary_key=field.name in key, autoincrement=False, quote=True
        )
        for field in schema
    ]
    return sa.Table(name, sa.MetaData(), *columns, quote=True)


def _column_type(field: pa.Field) -> sa.types.TypeEngine[Any]:
    kind = field.type
    for is_kind, column_type in _TYPES:
        if is_kind(kind):
            return column_type
    if types.is_decimal(kind):
        return sa.Numeric(kind.precision, kind.scale)
    raise ValueError(f"column {field.name} is {kind}, which no column holds; use to_json({field.name})")


_TYPES: Sequence[tuple[Any, sa.types.TypeEngine[Any]]] = (
    (types.is_boolean, sa.Boolean()),
    (types.is_integer, sa.BigInteger()),
    (types.is_floating, sa.Double()),
    # A column that is None in all rows has Arrow's type null: nothing says what it will hold.
    (lambda kind: types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind), sa.Text()),
    (lambda kind: types.is_binary(kind) or types.is_large_binary(kind), sa.LargeBinary()),
    (types.is_date, sa.Date()),
    (types.is_timestamp, sa.DateTime(timezone=True)),
)


def _in_utc(data: pa.Table) -> pa.Table:
    """Convert times of any zone, or none, to UTC: SQLite stores no zones, PostgreSQL puts its own in."""
    utc = pa.timestamp("us", tz="UTC")
    fields = [pa.field(field.name, utc) if types.is_timestamp(field.type) else field for field in data.schema]
    # Not safe: nanoseconds, which no column holds, would be an error.
    return data.cast(pa.schema(fields), safe=False)

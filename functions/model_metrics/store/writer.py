"""Writer of a batch's rows: each row once, however often its message is delivered."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from headrace.functions.model_metrics.messages.feedback import FeedbackRow
from headrace.functions.model_metrics.messages.responses import ResponseRow
from headrace.functions.model_metrics.store.tables import FEEDBACK, IGNORED, RESPONSES, TOUCHED

_INSERTS: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


@dataclass(frozen=True, slots=True)
class IgnoredRow:
    """A message without a row. Fields are named as the columns of IGNORED."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    reason: str


Row: TypeAlias = ResponseRow | FeedbackRow | IgnoredRow


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a batch of messages."""

    responses: Sequence[ResponseRow] = ()
    feedback: Sequence[FeedbackRow] = ()
    ignored: Sequence[IgnoredRow] = ()


class Writer:
    """Writes rows to one database. Blocks; after any SQLAlchemy error the same rows may be written again."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._inserts = {table: _insert(engine, table) for table in (RESPONSES, FEEDBACK, IGNORED)}
        self._touch = touch(engine)

    def write(self, rows: Rows) -> None:
        """Write all rows in one transaction. Raises SQLAlchemy's errors.

        If the database refuses JSON that we took for storable, the response is found by bisection and stored
        without its JSON, in several transactions.
        """
        try:
            self._write(rows)
        except sa.exc.DataError:
            # Feedback and ignored messages go with the first half: they are written once.
            if len(rows.responses) > 1:
                middle = len(rows.responses) // 2
                self.write(replace(rows, responses=rows.responses[:middle]))
                self.write(Rows(rows.responses[middle:]))
            elif rows.responses and rows.responses[0].payload_json is not None:
                self.write(replace(rows, responses=[replace(rows.responses[0], payload_json=None)]))
            else:
                # The JSON isn't to blame, and no retry would help: the batch fails.
                raise

    def _write(self, rows: Rows) -> None:
        now = datetime.now(UTC)
        parts: dict[sa.Table, Sequence[Row]]
        parts = {RESPONSES: rows.responses, FEEDBACK: rows.feedback, IGNORED: rows.ignored}
        with self._engine.begin() as connection:
            for table, rows_of_table in parts.items():
                if rows_of_table:
                    connection.execute(self._inserts[table], _parameters(rows_of_table, now))
            if rows.responses:
                times = ((row.namespace, row.model_name, row.response_timestamp) for row in rows.responses)
                # In the same transaction: after a crash in between nobody would sum up these minutes.
                connection.execute(self._touch, minutes_of(times))


def touch(engine: sa.Engine) -> Any:
    """Return the statement that queues buckets, for parameters that `minutes_of` makes."""
    # A bucket that is queued already is counted up: whoever is summing it up must see that it has changed.
    insert = _INSERTS[engine.dialect.name](TOUCHED).values(changes=1)
    return insert.on_conflict_do_update(
        index_elements=list(TOUCHED.primary_key), set_={"changes": TOUCHED.c.changes + 1}
    )


def minutes_of(times: Iterable[tuple[str, str, datetime]]) -> list[dict[str, Any]]:
    """Return each bucket of the (namespace, model, time) triples once, as parameters of `touch`.

    They are sorted, so that two transactions lock the same rows in the same order and can't deadlock.
    """
    found = {(namespace, model, time.replace(second=0, microsecond=0)) for namespace, model, time in times}
    return [
        {"namespace": namespace, "model_name": model, "bucket": bucket}
        for namespace, model, bucket in sorted(found)
    ]


def _insert(engine: sa.Engine, table: sa.Table) -> Any:
    left_to_the_database = {"id", "is_counted"}
    values: dict[str, Any] = {
        column.name: sa.bindparam(column.name)
        for column in table.c
        if column.name not in left_to_the_database
    }
    if table is RESPONSES:  # already JSON text
        text = sa.bindparam("payload_json", type_=sa.Text)
        # PostgreSQL parses the text into JSONB; SQLite stores it as it is.
        is_typed = engine.dialect.name == "postgresql"
        values["payload_json"] = sa.cast(text, postgresql.JSONB) if is_typed else text
    return _INSERTS[engine.dialect.name](table).values(values).on_conflict_do_nothing()


def _parameters(rows: Sequence[Row], now: datetime) -> list[dict[str, Any]]:
    names = [field.name for field in fields(rows[0])]
    values_of = attrgetter(*names)
    return [dict(zip(names, values_of(row), strict=True), ingested_at=now) for row in rows]

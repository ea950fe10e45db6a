"""Rows in a database of either kind: whole, once, however often and by however many they are written."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from inference_responses import as_json
from model_metrics_rows import AT, RESPONSE, TRUTH
from postgresql import Databases

from headrace.functions.database.engine import open_engine
from headrace.functions.database.schema import NewerDatabaseError, migrate
from headrace.functions.model_metrics.messages.feedback import Kind
from headrace.functions.model_metrics.messages.responses import ResponseRow
from headrace.functions.model_metrics.store.tables import (
    FEEDBACK,
    IGNORED,
    METADATA,
    MIGRATIONS,
    RESPONSES,
    TOUCHED,
)
from headrace.functions.model_metrics.store.writer import IgnoredRow, Rows, Writer

IGNORED_ROW = IgnoredRow(RESPONSE.topic, 3, 41, -1, "no_key")


def rows(count: int, first: int = 0) -> list[ResponseRow]:
    return [replace(RESPONSE, offset=offset) for offset in range(first, first + count)]


def stored(engine: sa.Engine, table: sa.Table = RESPONSES) -> Sequence[Any]:
    with engine.connect() as connection:
        return connection.execute(sa.select(table).order_by(table.c.offset)).all()


def stored_touches(engine: sa.Engine) -> list[tuple[Any, ...]]:
    columns = TOUCHED.c.model_name, TOUCHED.c.bucket, TOUCHED.c.changes
    with engine.connect() as connection:
        return [
            tuple(row)
            for row in connection.execute(
                sa.select(*columns).order_by(TOUCHED.c.bucket, TOUCHED.c.model_name)
            )
        ]


def test_every_field_is_stored_as_it_was(engine: sa.Engine) -> None:
    before = datetime.now(UTC)
    Writer(engine).write(
        Rows([RESPONSE, replace(RESPONSE, offset=2**40 + 1, request_id="é\u2028", payload_json=None)])
    )
    first, second = stored(engine)
    said = {name: value for name, value in first._mapping.items() if name not in ("id", "ingested_at")}
    assert said == asdict(RESPONSE) | {"payload_json": json.loads(as_json())}
    assert before <= first.ingested_at <= datetime.now(UTC)
    assert (second.request_id, second.payload_json) == ("é\u2028", None)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT count(payload_json) FROM responses")).scalar_one() == 1


def test_feedback_is_stored_as_it_was(engine: sa.Engine) -> None:
    number = replace(TRUTH, offset=8, kind=Kind.REGRESSION, label=None, number=0.1)
    Writer(engine).write(Rows(feedback=[TRUTH, number]))
    left_out = ("id", "ingested_at", "is_counted")
    said = [{n: v for n, v in row._mapping.items() if n not in left_out} for row in stored(engine, FEEDBACK)]
    assert said == [asdict(TRUTH), asdict(number)]
    assert not any(row.is_counted for row in stored(engine, FEEDBACK))


def test_the_minutes_of_responses_are_touched_with_them(engine: sa.Engine) -> None:
    minute = AT.replace(second=0, microsecond=0)
    later = replace(RESPONSE, offset=1, response_timestamp=AT + timedelta(minutes=3))
    Writer(engine).write(Rows([RESPONSE, later, replace(RESPONSE, offset=2)], [TRUTH]))
    Writer(engine).write(Rows([replace(later, model_name="other"), replace(later, offset=3)]))
    Writer(engine).write(Rows(feedback=[replace(TRUTH, offset=9)]))
    three = timedelta(minutes=3)
    touched = [("iris", minute, 1), ("iris", minute + three, 2), ("other", minute + three, 1)]
    assert stored_touches(engine) == touched


def test_a_time_with_another_zone_is_the_same_time(engine: sa.Engine) -> None:
    elsewhere = AT.astimezone(timezone(timedelta(hours=5)))
    Writer(engine).write(Rows([replace(RESPONSE, response_timestamp=elsewhere)]))
    (found,) = stored(engine)
    assert found.response_timestamp == AT


def test_what_comes_again_is_no_row(engine: sa.Engine) -> None:
    writer = Writer(engine)
    for _ in range(2):
        writer.write(Rows(rows(20), [TRUTH], [IGNORED_ROW]))
        writer.write(Rows(rows(20, first=10), [TRUTH], [replace(IGNORED_ROW, offset=42)]))
    assert [row.offset for row in stored(engine)] == list(range(30))
    assert [row.offset for row in stored(engine, FEEDBACK)] == [7]
    assert [row.offset for row in stored(engine, IGNORED)] == [41, 42]


def test_one_key_is_many_rows_and_a_topic_made_anew_has_its_own(engine: sa.Engine) -> None:
    made_anew = replace(RESPONSE, offset=0, response_timestamp=AT + timedelta(milliseconds=1))
    Writer(engine).write(Rows([*rows(3), made_anew]))
    assert len(stored(engine)) == 4


def test_a_batch_is_written_whole_or_not_at_all(engine: sa.Engine) -> None:
    wrong = replace(IGNORED_ROW, reason=None)  # type: ignore[arg-type]
    with pytest.raises(sa.exc.IntegrityError):
        Writer(engine).write(Rows(rows(3), [TRUTH], [wrong]))
    assert stored(engine) == stored(engine, FEEDBACK) == stored_touches(engine) == []
    Writer(engine).write(Rows(rows(3), [], [IGNORED_ROW]))
    assert len(stored(engine)) == 3


def test_many_may_write_at_once(engine: sa.Engine) -> None:
    writer = Writer(engine)

    def write(first: int) -> None:
        for start in range(first, first + 100, 20):
            writer.write(Rows(rows(30, start), [], [replace(IGNORED_ROW, offset=start)]))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, [0, 50, 100, 0]))
    assert [row.offset for row in stored(engine)] == list(range(210))
    assert stored_touches(engine) == [("iris", AT.replace(second=0, microsecond=0), 20)]


def test_json_that_a_database_refuses_costs_its_row_its_json_and_others_nothing(databases: Databases) -> None:
    engine = open_engine(databases.create())
    migrate(engine, MIGRATIONS)
    batch = [replace(row, payload_json=r'{"a": "\u0000"}' if row.offset == 5 else "{}") for row in rows(9)]
    Writer(engine).write(Rows(batch, [TRUTH], [IGNORED_ROW]))
    assert [row.payload_json for row in stored(engine)] == [None if n == 5 else {} for n in range(9)]
    assert len(stored(engine, IGNORED)) == len(stored(engine, FEEDBACK)) == 1
    engine.dispose()


# ---- migrations


def test_the_migrations_make_the_tables_of_today(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_many_may_migrate_at_once(url: str) -> None:
    engines = [open_engine(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(partial(migrate, steps=MIGRATIONS), engines))
    Writer(engines[0]).write(Rows([RESPONSE]))
    migrate(engines[1], MIGRATIONS)
    assert len(stored(engines[2])) == 1
    for engine in engines:
        engine.dispose()


def test_a_database_of_a_later_version_is_left_alone(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'v99'"))
    with pytest.raises(NewerDatabaseError, match="is at version v99, this function knows v1: update it"):
        migrate(engine, MIGRATIONS)


# ---- addresses


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mysql://user:secret@host/db", "mysql is no database for this; use sqlite or postgresql"),
        ("secret", "that is no address of a database"),
        ("", "that is no address of a database"),
    ],
)
def test_another_database_is_refused_without_its_password(address: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        open_engine(address)
    assert "secret" not in str(refused.value)

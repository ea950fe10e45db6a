"""Messages into the database: all kinds, each once, each run in order, and none in another's way."""

import json
import random
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from run_messages import BEGAN, Log

from headrace.functions.run_tracking.ingestion.folding import Sourced
from headrace.functions.run_tracking.ingestion.writer import BatchOutcome, BatchWriter
from headrace.functions.run_tracking.store import tables
from headrace.functions.run_tracking.store.tables import context_id

TRAIN = {"subset": "train"}


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def writer(engine: sa.Engine) -> BatchWriter:
    return BatchWriter(engine, 1000)


def rows(engine: sa.Engine, table: sa.Table, *columns: str) -> list[tuple[Any, ...]]:
    query = sa.select(*(table.c[name] for name in columns or table.c.keys()))
    with engine.connect() as connection:
        return sorted(tuple(row) for row in connection.execute(query))


def everything(engine: sa.Engine) -> dict[str, list[tuple[Any, ...]]]:
    names = [table for table in tables.METADATA.sorted_tables if table is not tables.TOMBSTONES]
    return {table.name: rows(engine, table) for table in names}


def a_run(log: Log, run_id: str = "r") -> list[Sourced]:
    """Messages of a run with something of every kind."""
    return [
        log("create_run", run_id, client_datetime=BEGAN.isoformat(), force_resume=False),
        log("set_run_property", run_id, name="first", experiment="baseline"),
        log("log_hparams", run_id, value={"hparams": {"lr": 0.1, "layers": [1, 2]}}),
        log("log_hparams", run_id, value={"hparams": {"seed": 7}}),
        log("log_metric", run_id, name="loss", value=0.5, step=0, epoch=None, context=TRAIN, dtype="float"),
        log("log_metric", run_id, name="loss", value=0.25, step=1, epoch=1, context=TRAIN),
        log("log_metric", run_id, name="loss", value=2.0, step=None, epoch=None, context=None, dtype=None),
        log("log_metric", run_id, name="loss", value=3, step=None),
        log(
            "log_custom_object", run_id, name="image", value={"s3_key": f"{run_id}/i"}, dtype="image", step=4
        ),
        log("log_terminal_line", run_id, line="a\0b", step=0),
        log("log_record", run_id, message="hello", level=20, timestamp=1.5, extra_args={"a": 1}),
        log("log_record", run_id, message="again", level=20, timestamp=1.5),
        log("add_tag", run_id, tag_name="good"),
        log("add_tag", run_id, tag_name="bad"),
        log("remove_tag", run_id, tag_name="bad"),
        log("blob_ref", run_id, artifact_path="model.bin", content_type="a/b", s3_key=f"{run_id}/model.bin"),
        log("finish_run", run_id, 90),
    ]


def test_a_run_is_stored_as_it_was_said(engine: sa.Engine, writer: BatchWriter, log: Log) -> None:
    assert writer.write(a_run(log)) == BatchOutcome()
    train = context_id(TRAIN)
    columns = ("id", "name", "is_active", "created_at", "finalized_at", "duration_seconds")
    (run,) = rows(engine, tables.RUNS, *columns)
    assert run == ("r", "first", False, BEGAN, BEGAN + timedelta(seconds=90), 90.0)
    (attrs,) = rows(engine, tables.RUN_ATTRS, "attrs")
    assert json.loads(attrs[0]) == {"hparams": {"lr": 0.1, "layers": [1, 2], "seed": 7}}
    assert rows(engine, tables.SEQUENCES, "context_id", "step", "value") == sorted(
        [(train, 0, 0.5), (train, 1, 0.25), (0, 0, 2.0), (0, 1, 3.0)]
    )
    assert (("r", train, "loss", "float", 0.25, 1)) in rows(engine, tables.TRACES)
    assert rows(engine, tables.CONTEXTS) == [("r", train, '{"subset":"train"}')]
    assert rows(engine, tables.TERMINAL_LINES) == [("r", 0, "a\ufffdb")]
    records = [json.loads(record)["message"] for _, _, record in rows(engine, tables.LOG_RECORDS)]
    assert records == ["hello", "again"]
    with engine.connect() as connection:
        is_of_run = tables.RUN_TAGS.c.tag_id == tables.TAGS.c.id
        names = sa.select(tables.TAGS.c.name).join(tables.RUN_TAGS, is_of_run)
        assert connection.execute(names).scalars().all() == ["good"]
    assert rows(engine, tables.BLOBS) == [("r", "model.bin", "a/b", "r/model.bin")]


@pytest.mark.parametrize("seed", range(5))
def test_what_comes_again_from_anywhere_changes_nothing(
    engine: sa.Engine, writer: BatchWriter, log: Log, seed: int
) -> None:
    """Weakness 4: a second create_run, records and metrics without a step."""
    chance = random.Random(seed)
    messages = [it for run in ("a", "b", "c") for it in a_run(log, run)]
    writer.write(messages)
    once = everything(engine)
    start = chance.randrange(len(messages))
    for part in parts(messages[start:], chance):
        writer.write(part)
    assert everything(engine) == once


def test_however_it_is_cut_the_same_is_stored(engine: sa.Engine, log: Log) -> None:
    messages = [it for run in ("a", "b") for it in a_run(log, run)]
    BatchWriter(engine, 1000).write(messages)
    whole = everything(engine)
    with engine.begin() as connection:
        for table in tables.METADATA.sorted_tables:
            connection.execute(sa.delete(table))
    for message in messages:
        BatchWriter(engine, 1).write([message])
    assert everything(engine) == whole


def parts(messages: list[Sourced], chance: random.Random) -> Iterable[list[Sourced]]:
    while messages:
        end = chance.randint(1, len(messages))
        yield messages[:end]
        messages = messages[end:]


@pytest.mark.parametrize("many", [1, 3, 1000])
def test_a_deleted_run_stays_deleted_whatever_comes_with_it_or_later(
    engine: sa.Engine, log: Log, many: int
) -> None:
    """Weakness 5: a create_run behind the delete, in one batch."""
    writer = BatchWriter(engine, many)
    messages = [*a_run(log), *a_run(log, "other"), log("delete_run"), *a_run(log)]
    outcome = writer.write(messages)
    assert outcome.failed == {}
    assert outcome.deleted == {"r"}
    assert outcome.late_blobs == ({} if many == 1000 else {"r": ["r/model.bin"]})
    for table in (*tables.RUN_TABLES, tables.RUNS):
        assert {row[0] for row in rows(engine, table)} == {"other"}, table.name
    later = writer.write([log("log_metric", name="loss", value=1.0, step=9)])
    assert later == BatchOutcome()
    assert [name for name, *_ in rows(engine, tables.RUNS)] == ["other"]


def test_a_message_that_no_database_takes_fails_alone(
    engine: sa.Engine, writer: BatchWriter, log: Log
) -> None:
    """Weakness 1: a group that fails was committed with the rest."""
    bad = log("log_metric", "bad", name="loss", value=1.0, step=2**63 - 1)
    worse = log("log_metric", "bad", name="loss", value=1.0, step=None)  # one more than there can be
    outcome = writer.write([*a_run(log, "a"), bad, worse, *a_run(log, "b"), log("finish_run", "bad")])
    assert list(outcome.failed) == [worse.source]
    assert {row[0] for row in rows(engine, tables.RUNS, "id")} == {"a", "b", "bad"}
    assert len(rows(engine, tables.SEQUENCES)) == 9


def test_a_client_that_sends_again_is_known_by_its_message_id(
    engine: sa.Engine, writer: BatchWriter, log: Log
) -> None:
    for _ in range(2):
        writer.write([log("log_metric", name="loss", value=1.0, step=None, message_id="c/1")])
        writer.write([log("log_record", message="m", level=1, timestamp=1.0, message_id="c/2")])
    assert len(rows(engine, tables.SEQUENCES)) == len(rows(engine, tables.LOG_RECORDS)) == 1


def test_what_is_no_number_is_kept_as_none(engine: sa.Engine, writer: BatchWriter, log: Log) -> None:
    values: list[Any] = ["NaN", None, "Infinity", "-Infinity", 1]
    writer.write([log("log_metric", name="x", value=it, step=at) for at, it in enumerate(values)])
    with engine.connect() as connection:
        query = sa.select(tables.SEQUENCES.c.value).order_by(tables.SEQUENCES.c.step)
        stored = connection.execute(query).scalars().all()
    assert stored == [None, None, float("inf"), float("-inf"), 1.0]


def test_a_run_that_is_resumed_is_active_again_and_began_when_it_began(
    engine: sa.Engine, writer: BatchWriter, log: Log
) -> None:
    later = (BEGAN + timedelta(hours=1)).isoformat()
    writer.write(a_run(log))
    writer.write([log("create_run", "r", 3600, client_datetime=later, force_resume=True)])
    (run,) = rows(engine, tables.RUNS, "is_active", "created_at", "client_started_at", "duration_seconds")
    assert run == (True, BEGAN, BEGAN, None)


def test_the_duration_is_by_the_clients_clock_where_both_ends_say_it(
    engine: sa.Engine, writer: BatchWriter, log: Log
) -> None:
    """Weakness 10."""
    client = BEGAN - timedelta(days=1)
    began, ended = client.isoformat(), (client + timedelta(seconds=12.5)).isoformat()
    create = log("create_run", client_datetime=began)
    writer.write([create, log("finish_run", "r", 99, client_datetime=ended)])
    assert rows(engine, tables.RUNS, "duration_seconds") == [(12.5,)]


@pytest.mark.parametrize("name", ["s3_key", "blob_key"])
def test_both_spellings_of_a_blobs_key_are_read(
    engine: sa.Engine, writer: BatchWriter, log: Log, name: str
) -> None:
    """Weakness 8."""
    spelled: dict[str, Any] = {name: "r/a"}
    writer.write([log("blob_ref", artifact_path="a", project_id="p", **spelled)])
    assert rows(engine, tables.BLOBS) == [("r", "a", "application/octet-stream", "r/a")]


def test_every_kind_makes_its_run_where_there_is_none(
    engine: sa.Engine, writer: BatchWriter, log: Log
) -> None:
    tag, name = log("add_tag", "a", tag_name="t"), log("set_run_property", "b", name="n")
    writer.write([tag, name, log("finish_run", "c")])
    assert [row[0] for row in rows(engine, tables.RUNS)] == ["a", "b", "c"]


def test_the_time_of_a_custom_object_is_the_clients(engine: sa.Engine, writer: BatchWriter, log: Log) -> None:
    """Weakness 10: it was dropped."""
    said = BEGAN + timedelta(seconds=3)
    writer.write(
        [log("log_custom_object", "r", 9, name="i", value={}, step=0, client_datetime=said.isoformat())]
    )
    assert rows(engine, tables.CUSTOM_OBJECTS, "time") == [(said,)]

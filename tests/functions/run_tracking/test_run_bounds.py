"""Limits of a run: by item, by connection, and in the database."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from run_messages import Log

from headrace.functions.run_tracking.frontier.sockets import ConnectionLimits, Sockets
from headrace.functions.run_tracking.frontier.status import FrontierMetrics
from headrace.functions.run_tracking.ingestion.folding import Sourced
from headrace.functions.run_tracking.ingestion.writer import BatchWriter
from headrace.functions.run_tracking.messages.items import ItemError, read_frame
from headrace.functions.run_tracking.settings import RunBounds, SettingsError, read_settings
from headrace.functions.run_tracking.store import tables as t


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


LONG = {"subset": "x" * 5000}
METRIC = {"type": "log_metric", "name": "loss", "value": 1}


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (METRIC | {"context": LONG}, "its context is of 5013 bytes: at most 4096"),
        (METRIC | {"context": {"a": nested(40)}}, "nested deeper than 32"),
        (METRIC | {"dtype": "x" * 101}, "length <= 100"),
        ({"type": "log_hparams", "value": {"a": nested(40)}}, "nested deeper than 32"),
        ({"type": "log_custom_object", "name": "a", "value": {"a": nested(40)}}, "nested deeper than 32"),
        (
            {"type": "log_record", "message": "", "level": 1, "timestamp": 1, "logger_info": nested(40)},
            "nested deeper than 32",
        ),
        ({"type": "set_run_property", "name": "x" * 513}, "length <= 512"),
        ({"type": "set_run_property", "description": "x" * 100_001}, "length <= 100000"),
        ({"type": "blob_ref", "artifact_path": "a", "s3_key": "r/a", "content_type": "x" * 256}, "<= 255"),
    ],
)
def test_an_item_is_no_larger_than_what_reads_it_can_bear(item: dict[str, Any], says: str) -> None:
    with pytest.raises(ItemError, match=says) as raised:
        read_frame("r", json.dumps(item))
    assert "\n" not in str(raised.value)


def test_what_is_nested_as_deep_as_may_be_is_taken() -> None:
    read_frame("r", json.dumps(METRIC | {"context": {"a": nested(31)}}))


# ---- on a connection


def told(named: ConnectionLimits, *items: dict[str, Any]) -> None:
    named.check(read_frame("r", json.dumps(items)))


def test_a_client_is_told_which_metric_is_too_many() -> None:
    named = ConnectionLimits(RunBounds(sequences=3))
    told(named, METRIC, METRIC | {"context": {"a": 1}}, METRIC | {"name": "b"}, METRIC)
    for _ in range(2):
        with pytest.raises(ItemError, match="at most 3 metrics and the like, each in each context: RUN_MAX"):
            told(named, {"type": "log_custom_object", "name": "c", "value": {}})
    told(named, METRIC)


def test_a_client_is_told_which_tag_is_too_many() -> None:
    named = ConnectionLimits(RunBounds(tags=2))
    for number in range(10):
        told(named, {"type": "add_tag", "tag_name": f"epoch {number}"})
        told(named, {"type": "remove_tag", "tag_name": f"epoch {number}"})
    told(named, *({"type": "add_tag", "tag_name": name} for name in "aba"))
    with pytest.raises(ItemError, match="a run has at most 2 tags: RUN_MAX_TAGS"):
        told(named, {"type": "add_tag", "tag_name": "c"})


def test_what_a_refused_frame_names_takes_no_room() -> None:
    named = ConnectionLimits(RunBounds(sequences=2, tags=1))
    added, other = ({"type": "add_tag", "tag_name": name} for name in "ab")
    for _ in range(2):
        with pytest.raises(ItemError, match="RUN_MAX_SEQUENCES"):
            told(named, *(METRIC | {"name": name} for name in "abc"))
        with pytest.raises(ItemError, match="RUN_MAX_TAGS"):
            told(named, METRIC, added, other)
    told(named, METRIC | {"name": "d"}, METRIC | {"name": "e"}, other)


@pytest.mark.parametrize("value", [{"a": "x" * 100}, {"a": {"b": 1, "c": [{"d": 1}, {"d": 2}]}}])
def test_a_client_is_told_which_hyperparameters_are_too_many(value: dict[str, Any]) -> None:
    named = ConnectionLimits(RunBounds(hparams_bytes=100, hparams=4))
    told(named, {"type": "log_hparams", "value": {"a": 1, "b": {"c": 1, "d": 1}}})
    with pytest.raises(ItemError, match="names: at most 100 bytes and 4 names, RUN_MAX_HPARAMS"):
        told(named, {"type": "log_hparams", "value": value})


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ('{"type": "log_metric", "name": "\\ud800", "value": NaN}', "it has a character that no text has"),
        ('{"type": "log_hparams", "value": {"\\ud800": NaN}}', "it has a character that no text has"),
        ('{"type": "add_tag", "tag_name": "c"}', "a run has at most 1 tags: RUN_MAX_TAGS"),
    ],
)
def test_what_is_refused_is_its_reply_and_the_connection_goes_on(item: str, says: str) -> None:
    published: list[Any] = []

    async def publish(run_id: str, values: list[bytes]) -> None:
        published.extend(values)

    bounds = RunBounds(tags=1)
    publisher: Any = SimpleNamespace(publish=publish)
    sockets, named = Sockets(publisher, FrontierMetrics(), bounds), ConnectionLimits(bounds)

    def replied(frame: str) -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(asyncio.run(sockets._reply("r", named, frame)))
        return reply

    assert replied('{"type": "add_tag", "tag_name": "a"}')["status"] == "ok"
    assert replied(item) == {"status": "error", "error": says}
    assert replied('{"type": "add_tag", "tag_name": "a"}')["status"] == "ok"
    assert len(published) == 2


# ---- in the database: whoever has produced it


@pytest.fixture
def log() -> Log:
    return Log()


def written(engine: sa.Engine, bounds: RunBounds, *messages: Sourced) -> list[int]:
    """Which of them are refused, each in a line."""
    failed = BatchWriter(engine, 1000, bounds).write(messages).failed
    assert not any("\n" in reason for reason in failed.values())
    return [place for place, message in enumerate(messages) if message.source in failed]


def count(engine: sa.Engine, table: sa.Table) -> int:
    with engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def test_a_run_has_no_more_metrics_than_it_may_and_goes_on_with_those(engine: sa.Engine, log: Log) -> None:
    bounds = RunBounds(sequences=3)
    messages = [log("log_metric", name=f"m{n % 5}", value=n, step=n, context={"n": n % 5}) for n in range(10)]
    messages.append(log("log_record", message="hello", level=20, timestamp=1.5))
    assert written(engine, bounds, *messages) == [3, 4, 8, 9]
    assert written(engine, bounds, *messages) == [3, 4, 8, 9]
    assert (count(engine, t.SEQUENCES), count(engine, t.CONTEXTS), count(engine, t.TRACES)) == (6, 3, 4)
    assert written(engine, bounds, log("log_metric", "q", name="m4", value=1)) == []


def test_a_run_has_no_more_tags_than_it_may(engine: sa.Engine, log: Log) -> None:
    bounds = RunBounds(tags=2)
    names = [("add", "a"), ("add", "b"), ("add", "c"), ("add", "a"), ("remove", "a"), ("add", "d")]
    messages = [log(f"{verb}_tag", tag_name=name) for verb, name in names]
    assert written(engine, bounds, *messages) == [2]
    assert count(engine, t.RUN_TAGS) == 2
    assert written(engine, bounds, log("add_tag", tag_name="e")) == [0]


def test_a_run_has_no_more_artifacts_than_it_may(engine: sa.Engine, log: Log) -> None:
    refs = [log("blob_ref", artifact_path=f"a{n}", s3_key=f"r/a{n}") for n in (0, 1, 2, 0)]
    assert written(engine, RunBounds(artifacts=2), *refs) == [2]
    assert count(engine, t.BLOBS) == 2


def test_hyperparameters_of_a_run_have_a_bound_together(engine: sa.Engine, log: Log) -> None:
    bounds = RunBounds(hparams_bytes=200, hparams=5)
    values: list[dict[str, Any]] = [
        {"hparams": {"a": 1, "b": 2}},
        {"c": "x" * 150},
        {"d": "x" * 100},  # too many bytes
        {"c": "y"},
        {"d": "x" * 100},
        {"e": {"f": 1}},  # too many names
        {"hparams": {"a": [1, 2]}},
    ]
    messages = [log("log_hparams", value=value) for value in values]
    assert written(engine, bounds, *messages[:3]) == [2]
    assert written(engine, bounds, *messages[3:]) == [2]
    with engine.connect() as connection:
        attrs = json.loads(connection.execute(sa.select(t.RUN_ATTRS.c.attrs)).scalar_one())
    assert attrs == {"hparams": {"a": [1, 2], "b": 2}, "c": "y", "d": "x" * 100}


def test_what_is_over_a_bound_already_may_shrink(engine: sa.Engine, log: Log) -> None:
    grown = [log("log_hparams", value={"a": "x" * 500}), log("log_hparams", value={"b": "x" * 500})]
    assert written(engine, RunBounds(), *grown) == []
    bounds = RunBounds(hparams_bytes=200)
    messages = [
        log("log_hparams", value={name: size * "y"}) for name, size in (("a", 400), ("a", 450), ("b", 1))
    ]
    assert written(engine, bounds, *messages) == [1]


# ---- settings


def test_bounds_are_read_and_what_is_none_is_said_in_a_line() -> None:
    assert read_settings({}).run_bounds == RunBounds()
    assert (
        read_settings({"RUN_MAX_TAGS": "5", "BLOBS_MAX_BYTES": "5e9"}).blob_bounds.all_bytes == 5_000_000_000
    )
    for value in ("0", "-1", "nan", "many"):
        with pytest.raises(SettingsError, match=r"^RUN_MAX_TAGS is '.*': expected a number from 1 to "):
            read_settings({"RUN_MAX_TAGS": value})

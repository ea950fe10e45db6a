"""The event is a nuclio_sdk.Event in all that a handler can see."""

import copy
import json
import pickle
from datetime import datetime
from typing import Any

import nuclio_sdk
import pytest

from headrace.runtime.wire.records import SentRecord, encode_headers
from headrace.runtime.worker.api.event import StreamEvent, partition_event_class
from headrace.runtime.worker.api.event_classes import nuclio_event_class
from headrace.runtime.worker.api.partition_view import PartitionView

TRIGGER = nuclio_sdk.TriggerInfo("kafka-cluster", "orders-trigger")


@pytest.fixture(autouse=True, params=["as any", "as of its partition"])
def its_class(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "as any":
        monkeypatch.setitem(
            globals(), "made", lambda base, e: partition_event_class(base, e._partition)(*parts(e))
        )


def parts(e: StreamEvent) -> tuple[Any, ...]:
    return e._record, e._partition, e.attempt


def made(base: Any, e: StreamEvent) -> Any:
    """The same as that class has it."""
    return base(*parts(e))


def event(**fields: Any) -> StreamEvent:
    headers = encode_headers([("a", b"1"), ("b", b"2"), ("a", b"3"), ("none", None)])
    record = SentRecord(41, 1_700_000_000_123, 0, b"key", b"body", headers)._replace(**fields)
    it = made(StreamEvent, StreamEvent(record, PartitionView("orders", 3, TRIGGER), attempt=2))
    assert isinstance(it, StreamEvent)
    return it


def test_it_says_what_the_record_says() -> None:
    e = event()
    assert isinstance(e, nuclio_sdk.Event)
    assert (e.body, e.key, e.offset, e.shard_id, e.size) == (b"body", b"key", 41, 3, 4)
    assert (e.topic, e.path, e.id, e.attempt, e.timestamp_type) == ("orders", "orders", "orders/3/41", 2, 0)
    assert e.headers == {"a": b"3", "b": b"2", "none": None}
    assert e.header_list == [("a", b"1"), ("b", b"2"), ("a", b"3"), ("none", None)]
    assert e.get_header("A") == b"3"
    assert (e.trigger.kind, e.trigger.name) == ("kafka-cluster", "orders-trigger")
    assert (e.content_type, e.method, e.fields, e.num_shards, e.last_in_batch) == ("", "", {}, 0, False)


def test_its_time_is_naive_utc_with_milliseconds() -> None:
    assert event().timestamp == datetime(2023, 11, 14, 22, 13, 20, 123000)  # noqa: DTZ001
    assert event(timestamp=-1).timestamp is None


@pytest.mark.parametrize("ms", [253_402_300_800_000, 2**62, 2**63 - 1, -(2**63)])
def test_a_time_that_no_calendar_has_is_none(ms: int) -> None:
    assert event(timestamp=253_402_300_799_999).timestamp == datetime(9999, 12, 31, 23, 59, 59, 999000)  # noqa: DTZ001
    e = event(timestamp=ms)
    assert e.timestamp is None
    assert vars(e)["timestamp"] is None
    assert json.loads(e.to_json())["timestamp"] is None


def test_a_tombstone_has_no_body_and_no_size() -> None:
    e = event(value=None, key=None)
    assert (e.body, e.key, e.size) == (None, None, 0)


def test_fields_may_be_set_and_keep_their_value() -> None:
    e = event()
    e.body = b"other"
    e.headers["x"] = b"y"
    e.topic = "other"
    assert (e.body, e.headers["x"], e.topic) == (b"other", b"y", "other")
    assert (copy.copy(e).topic, pickle.loads(pickle.dumps(e)).topic, vars(e)["topic"]) == ("other",) * 3


def test_it_survives_copy_and_pickle() -> None:
    for twin in (copy.copy(event()), copy.deepcopy(event()), pickle.loads(pickle.dumps(event()))):
        assert (twin.id, twin.headers, twin.trigger.name) == (event().id, event().headers, TRIGGER.name)


def test_its_json_has_the_sdks_fields() -> None:
    mine = json.loads(event().to_json())
    theirs = json.loads(nuclio_sdk.Event(body=b"body", timestamp=datetime.now()).to_json())  # noqa: DTZ005
    assert mine.keys() >= theirs.keys()
    assert mine["body"] == theirs["body"]


def test_a_qualified_offset_can_be_made_of_it() -> None:
    offset = nuclio_sdk.QualifiedOffset.from_event(event())
    assert (offset.topic, offset.partition, offset.offset) == ("orders", 3, 41)


def test_vars_has_what_nuclios_has() -> None:
    theirs = nuclio_sdk.Event(body=b"body", timestamp=datetime.now())  # noqa: DTZ005
    assert set(vars(theirs)) <= set(vars(event()))
    assert vars(event())["topic"] == "orders"


def test_a_key_that_code_sets_leaves_the_records_own() -> None:
    e = event()
    e.key = b"another"
    assert (e.key, e.record_key) == (b"another", b"key")


def test_an_event_without_key_takes_one() -> None:
    e = made(nuclio_event_class(StreamEvent, has_key=False), event())
    assert not hasattr(e, "key")
    assert json.loads(repr(e))["offset"] == 41
    e.key = "set"
    for twin in (e, copy.copy(e), pickle.loads(pickle.dumps(e))):
        assert (twin.key, twin.record_key) == ("set", b"key")


def test_strings_may_be_bytes_as_in_nuclio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUCLIO_PYTHON_DECODE_EVENT_STRINGS", "false")
    e = made(nuclio_event_class(StreamEvent, has_key=True), event())
    assert (e.topic, e.path, e.id, e.method) == (b"orders", b"orders", b"orders/3/41", b"")
    assert e.headers == {b"a": b"3", b"b": b"2", b"none": None}
    assert (e.trigger.kind, e.trigger.name) == (b"kafka-cluster", b"orders-trigger")

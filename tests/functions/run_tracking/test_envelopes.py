"""Frames and messages: what is read, what is refused, and that each reads what Matyan's services write."""

import contextlib
import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_messages import value

from headrace.functions.run_tracking.messages.envelopes import (
    encode_event,
    encode_message,
    read_event,
    read_message,
)
from headrace.functions.run_tracking.messages.items import (
    BlobRef,
    FinishRun,
    ItemError,
    LogHParams,
    LogMetric,
    SetRunProperty,
    read_frame,
)
from headrace.functions.run_tracking.store.tables import context_id

NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
METRIC = {"type": "log_metric", "name": "loss", "value": 0.5, "step": 3, "epoch": None, "context": None}


def through(item: dict[str, Any]) -> dict[str, Any]:
    """What stands in the topic of a client's item."""
    (read,) = read_frame("run", json.dumps(item))
    written: dict[str, Any] = json.loads(encode_message("run", read, NOW))
    return written


def test_an_item_becomes_the_envelope_that_matyans_workers_read() -> None:
    written = through(METRIC | {"run_id": "another", "client_datetime": "2026-05-01T12:00:00+00:00"})
    assert (written["type"], written["run_id"]) == ("log_metric", "run")
    assert datetime.fromisoformat(written["timestamp"]) == NOW
    assert written["payload"] == {
        "name": "loss",
        "value": 0.5,
        "step": 3,
        "client_datetime": "2026-05-01T12:00:00Z",
    }
    assert through({"type": "finish_run"})["payload"] == {}


@pytest.mark.parametrize("spelled", ["s3_key", "blob_key"])
def test_of_two_spellings_one_goes_on(spelled: str) -> None:
    written = through({"type": "blob_ref", "artifact_path": "a", spelled: "run/a"})
    assert written["payload"] == {"artifact_path": "a", "s3_key": "run/a"}


@pytest.mark.parametrize("more", [{}, {"project_id": "p"}])
def test_envelopes_of_both_versions_are_read(more: dict[str, str]) -> None:
    """Weakness 8."""
    envelope = json.loads(value("blob_ref", artifact_path="a", blob_key="r/a")) | more
    message = read_message(json.dumps(envelope).encode())
    assert isinstance(message.item, BlobRef)
    assert message.item.s3_key == "r/a"


def test_what_is_absent_of_a_property_is_not_there() -> None:
    message = read_message(value("set_run_property", name="n"))
    assert isinstance(message.item, SetRunProperty)
    assert (message.item.name, message.item.archived, message.item.experiment) == ("n", None, None)


@pytest.mark.parametrize(
    ("written", "says"),
    [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")],
)
def test_what_python_writes_for_no_number_is_read(written: float, says: str) -> None:
    """A loss that is NaN is what one wants to see."""
    (item,) = read_frame("run", json.dumps(METRIC | {"value": written}))
    assert isinstance(item, LogMetric)
    assert item.value == says
    sent = read_message(encode_message("run", item, NOW)).item
    assert isinstance(sent, LogMetric)
    assert sent.value == says


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        ("no json", "Expecting value"),
        ("[" * 100_000, "Expected `object`"),
        (b"\xff", "utf-8"),
        ('"text"', "Expected `object | array`"),
        (json.dumps([METRIC, {"type": "no_such"}]), "Invalid value 'no_such'"),
        (json.dumps([METRIC, {"type": "delete_run"}]), "Invalid value 'delete_run'"),
        (json.dumps([METRIC, METRIC | {"value": "one"}]), r"\$\[1\]"),
        (json.dumps([METRIC, METRIC | {"step": 2**63}]), r"\$\[1\].step"),
        (json.dumps([METRIC, METRIC | {"name": "n" * 513}]), r"\$\[1\].name"),
        (json.dumps({"type": "log_metric", "name": "x"}), "missing required field `value`"),
        (json.dumps({"type": "blob_ref", "artifact_path": "a"}), "needs an s3_key"),
        (json.dumps({"type": "blob_ref", "artifact_path": "a", "s3_key": "other/a"}), "not below run/"),
        (json.dumps({"type": "blob_ref", "artifact_path": "a", "s3_key": "run/../b"}), "no name"),
    ],
)
def test_a_frame_is_right_as_a_whole_or_refused_in_a_line(frame: str | bytes, says: str) -> None:
    """Weakness 7: the items before the bad one were published."""
    with pytest.raises(ItemError, match=says) as raised:
        read_frame("run", frame)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "body",
    [
        None,
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"null",
        value("log_metric", name=None),
        value("log_metric", "../x", name="loss", value=1),
        value("log_metric", "", name="loss", value=1),
        value("blob_ref", artifact_path="a", s3_key="x/a"),
    ],
)
def test_what_is_no_message_is_an_error_of_its_own(body: bytes | None) -> None:
    """Weakness 6."""
    with pytest.raises(ItemError):
        read_message(body)


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_a_message_or_an_error(body: bytes) -> None:
    with contextlib.suppress(ItemError):
        assert read_message(body).run_id


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_hyperparameters_come_through_as_they_are(params: dict[str, Any]) -> None:
    try:
        (item,) = read_frame("run", json.dumps({"type": "log_hparams", "value": params}))
    except ItemError:  # a half of a pair of surrogates is no text
        assert any(0xD800 <= ord(letter) < 0xE000 for letter in json.dumps(params, ensure_ascii=False))
        return
    sent = read_message(encode_message("run", item, NOW)).item
    assert isinstance(sent, LogHParams)
    assert sent.value == params


def test_a_type_that_nobody_knows_is_read_without_an_item() -> None:
    message = read_message(value("log_dream", what="sheep"))
    assert (message.type, message.item) == ("log_dream", None)


def test_a_time_without_a_zone_is_utc() -> None:
    message = read_message(
        b'{"type":"finish_run","run_id":"r","timestamp":"2026-05-01T12:30:00","payload":{}}'
    )
    assert (message.time, type(message.item).__mro__[1]) == (NOW, FinishRun)


def test_an_event_is_read_as_it_was_written() -> None:
    event = read_event(encode_event("run_deleted", NOW, run_id="r", blob_keys=["r/a"]))
    assert (event.type, event.time, event.payload) == (
        "run_deleted",
        NOW,
        {"run_id": "r", "blob_keys": ["r/a"]},
    )
    with pytest.raises(ItemError):
        read_event(b"{}")


def test_contexts_have_the_ids_that_matyans_clients_compute() -> None:
    context_module = pytest.importorskip("matyan_api_models.context")
    for context in ({"subset": "train"}, {"b": 1, "a": [1, {"x": None}], "ü": "ö"}, {}, None):
        assert context_id(context) == context_module.context_to_id(context)

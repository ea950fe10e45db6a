"""What a handler sees of a firing."""

import copy
import json
import pickle
from datetime import datetime
from typing import Any

import pytest

from headrace.runtime.worker.api import sdk
from headrace.runtime.worker.api.event_classes import nuclio_event_class
from headrace.runtime.worker.api.partition_view import PartitionView
from headrace.triggers.cron.event import CronEvent, body_of, head_of, record_of

HEADERS: dict[str, str | int] = {"X-Kind": "nightly", "count": 7}
MOMENT = 1_767_323_045.0  # 2026-01-02T03:04:05Z


def event(moment: float = MOMENT, body: str = '{"a": 1}', made_by: Any = CronEvent) -> Any:
    record = record_of(3, moment, head_of(HEADERS, "/report", "POST"), body_of(body))
    return made_by(record, PartitionView("cron:t", 0, sdk.TriggerInfo("cron", "t")), 2)


def test_it_has_what_the_file_says() -> None:
    it = event()
    assert (it.body, it.size, it.headers, it.path, it.method) == (b'{"a": 1}', 8, HEADERS, "/report", "POST")
    assert (it.content_type, it.offset, it.topic, it.attempt) == ("", 0, "", 2)
    assert (it.trigger.kind, it.trigger.name, it.get_header("x-kind")) == ("cron", "t", "nightly")


@pytest.mark.parametrize(
    ("moment", "named"), [(MOMENT, "t/2026-01-02T03:04:05Z"), (MOMENT + 0.1, "t/2026-01-02T03:04:05.100Z")]
)
def test_its_id_is_its_moment(moment: float, named: str) -> None:
    assert event(moment).id == named


def test_its_timestamp_is_naive_utc_to_the_millisecond() -> None:
    assert event(MOMENT + 0.25).timestamp == datetime(2026, 1, 2, 3, 4, 5, 250_000)  # noqa: DTZ001  # as Nuclio's


def test_a_copy_has_all_of_it() -> None:
    for again in (copy.deepcopy(event()), pickle.loads(pickle.dumps(event()))):
        assert {name: value for name, value in vars(again).items() if name != "trigger"} == {
            name: value for name, value in vars(event()).items() if name != "trigger"
        }
    assert json.loads(event().to_json())["id"] == "t/2026-01-02T03:04:05Z"


def test_with_undecoded_strings_all_text_is_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUCLIO_PYTHON_DECODE_EVENT_STRINGS", "no")
    it = event(made_by=nuclio_event_class(CronEvent, has_key=True))
    assert it.headers == {b"X-Kind": b"nightly", b"count": 7}
    assert (it.path, it.method, it.id, it.topic) == (b"/report", b"POST", b"t/2026-01-02T03:04:05Z", b"")


def test_what_yaml_has_and_utf8_has_not_is_sent() -> None:
    assert event(body="\ud800").body == b"\xed\xa0\x80"

"""`ordering`, `maxConcurrency` and `ackDeadline`: what goes with them, and what is refused or noticed."""

from pathlib import Path
from typing import Any

import pytest
from kafka_settings import loaded, notices_of, problems_with

from headrace.runtime.config.delivery_policy import AckMode
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.triggers.kafka.trigger import KafkaTrigger

STATIC = {"workerAllocationMode": "static"}
BATCH: dict[str, Any] = {"batch": {"mode": "enable"}}


@pytest.mark.parametrize("ordering", ["key", "none"])
@pytest.mark.parametrize(
    ("attributes", "fields", "says"),
    [
        (STATIC, {}, "ordering: {} needs workerAllocationMode pool: static keeps a partition at one worker"),
        ({}, BATCH, "ordering: {} can't be with batches: a batch succeeds or fails as a whole"),
        (
            {},
            {"explicitAckMode": "explicitOnly"},
            "ordering: {} with explicitAckMode explicitOnly is known, but not built into this version",
        ),
        (
            {"ackWindowSize": 5},
            {},
            "ackWindowSize: with ordering: {} is known, but not built into this version",
        ),
    ],
)
def test_what_can_not_be_with_records_that_overtake_each_other(
    tmp_path: Path, ordering: str, attributes: dict[str, Any], fields: dict[str, Any], says: str
) -> None:
    text = problems_with(tmp_path, {"ordering": ordering} | attributes, **fields)
    assert f"attributes.{says.format(ordering)}" in text


@pytest.mark.parametrize(
    ("value", "fields", "says"),
    [
        (2, BATCH, "above 1 with batches is known, but not built into this version"),
        (2, {"workerAllocatorName": "a"}, "above 1 with workerAllocatorName is known, but not built"),
        (0, {}, "0 is out of range; expected at least 1"),
        (1001, {}, "1001 is out of range; expected at most 1000"),
    ],
)
def test_how_many_records_may_overlap_has_bounds(
    tmp_path: Path, value: int, fields: dict[str, Any], says: str
) -> None:
    assert f"maxConcurrency: {says}" in problems_with(tmp_path, {"maxConcurrency": value}, **fields)


def test_a_deadline_for_acks_counts_where_handlers_ack(tmp_path: Path) -> None:
    settings = loaded(tmp_path, {"ackDeadline": "90s"})
    for mode, deadline in ((AckMode.DISABLE, None), (AckMode.ENABLE, 90.0), (AckMode.EXPLICIT_ONLY, 90.0)):
        fields = TriggerFields(kind="kafka-cluster", explicit_ack_mode=mode.value)
        assert KafkaTrigger.delivery(settings, fields).ack_deadline_seconds == deadline
    assert "ackDeadline: has no effect while explicitAckMode is disable" in notices_of(
        tmp_path, {"ackDeadline": "90s"}
    )


@pytest.mark.parametrize(
    ("attributes", "is_decoded"),
    [
        ({"ordering": "partition"}, False),
        ({"isolationLevel": "read_committed"}, False),
        ({"ordering": "key"}, True),
        ({"ordering": "none"}, True),
        ({"fetchMax": 1000}, True),
    ],
)
def test_keys_and_sizes_are_read_in_the_processor(
    tmp_path: Path, attributes: dict[str, Any], *, is_decoded: bool
) -> None:
    assert (loaded(tmp_path, attributes).decoder == "") is is_decoded

"""A trigger's settings as its DeliveryPolicy, and `batch`, which only that knows."""

from pathlib import Path
from typing import Any

import pytest
from function_files import FULL, KINDS, SPECS, Change, load_changed, problems_of

from headrace.runtime.config.delivery_policy import AckMode, BatchPolicy, DeliveryPolicy, FailurePolicy
from headrace.runtime.config.function_reader import load_function
from headrace.runtime.config.trigger import TriggerSpec
from headrace.triggers.kafka.trigger import KafkaTrigger

AT = "spec.triggers.t"


def _trigger(attributes: dict[str, Any] | None = None, **fields: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        trigger = document["spec"]["triggers"]["t"]
        trigger["attributes"].update(attributes or {})
        trigger.update(fields)

    return change


def _loaded(folder: Path, attributes: dict[str, Any] | None = None, **fields: Any) -> TriggerSpec:
    (trigger,) = load_changed(folder, _trigger(attributes, **fields)).triggers
    return trigger


def _notices(folder: Path, attributes: dict[str, Any] | None = None, **fields: Any) -> tuple[str, ...]:
    return load_changed(folder, _trigger(attributes, **fields)).notices


@pytest.mark.parametrize("name", ["kafka-minimal", "kafka-full"])
def test_the_published_examples_deliver_as_a_file_that_says_nothing(name: str) -> None:
    (trigger,) = load_function(SPECS / f"{name}.yaml", KINDS).triggers
    expected = DeliveryPolicy(
        decoder="headrace.triggers.kafka.format.decoder:decode", decoder_options={"max_batch_bytes": 1 << 26}
    )
    assert KafkaTrigger.delivery(trigger.settings, trigger.fields) == expected


def test_the_full_example_shows_what_is_no_attribute_too() -> None:
    spec = FULL["spec"]
    assert spec["eventTimeout"] == spec["resources"]["limits"]["memory"] == ""
    assert spec["triggers"]["orders"]["batch"] == {"mode": "disable", "batchSize": 10, "timeout": "1s"}


def test_every_setting_reaches_the_delivery_policy(tmp_path: Path) -> None:
    trigger = _loaded(
        tmp_path,
        {
            "workerAllocationMode": "static",
            "explicitAckSemantics": "cumulative",
            "ackWindowSize": 3,
            "fetchMax": 1000,
            "onFailure": {"maxAttempts": 2, "then": "skip"},
        },
        explicitAckMode="explicitOnly",
        waitExplicitAckDuringRebalanceTimeout="2s",
        batch={"mode": "enable", "batchSize": 50, "timeout": "200ms"},
    )
    assert KafkaTrigger.delivery(trigger.settings, trigger.fields) == DeliveryPolicy(
        worker_allocation_mode="static",
        ack_mode=AckMode.EXPLICIT_ONLY,
        explicit_ack_semantics="cumulative",
        ack_window_size=3,
        late_ack_seconds=2.0,
        failure=FailurePolicy(max_attempts=2, then="skip"),
        batch=BatchPolicy(50, 0.2),
        fetch_max_bytes=1000,
    )


def test_ranges_reach_the_delivery_policy(tmp_path: Path) -> None:
    trigger = _loaded(tmp_path, {"delivery": "ranges"}, batch={"mode": "enable"})
    policy = KafkaTrigger.delivery(trigger.settings, trigger.fields)
    assert (policy.is_ranges, policy.decoder) == (True, "")
    assert policy.event == "headrace.runtime.worker.api.event:RangeEvent"
    assert policy.source_options == trigger.settings.spark_source_options


def test_nobody_waits_for_late_acks_without_explicit_acks(tmp_path: Path) -> None:
    off = _loaded(tmp_path, waitExplicitAckDuringRebalanceTimeout="2s")
    assert KafkaTrigger.delivery(off.settings, off.fields).late_ack_seconds == 0
    on = _loaded(tmp_path, {"workerAllocationMode": "static"}, explicitAckMode="enable")
    assert KafkaTrigger.delivery(on.settings, on.fields).ack_mode is AckMode.ENABLE
    assert KafkaTrigger.delivery(on.settings, on.fields).late_ack_seconds == 0.1


def test_a_batch_has_nuclios_defaults(tmp_path: Path) -> None:
    assert _loaded(tmp_path).fields.delivery.batch is None
    assert _loaded(tmp_path, batch={"mode": "disable"}).fields.delivery.batch is None
    assert _loaded(tmp_path, batch={"mode": "enable"}).fields.delivery.batch == BatchPolicy(10, 1.0)


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        ({"mode": "on"}, ".mode: 'on' is not known here; expected 'disable' or 'enable'"),
        ({"batchSize": 0}, ".batchSize: 0 is out of range; expected more than 0"),
        ({"batchSize": 100_000_001}, ".batchSize: 100000001 is out of range; expected at most 100000000"),
        ({"batchSize": "10"}, ".batchSize: '10' is not an int; expected a whole number, without quotes"),
        ({"timeout": "0s"}, ".timeout: '0s' is out of range; expected more than 0s"),
        ({"timeout": 1}, ".timeout: 1 is not a duration; expected something like 10s or 1m30s"),
        ({"size": 1}, ".size: unknown key; the nearest known key is batchSize"),
        ("enable", ": this is no mapping"),
    ],
)
def test_a_wrong_batch_is_one_line(tmp_path: Path, batch: object, says: str) -> None:
    text = problems_of(tmp_path, _trigger(batch=batch))
    assert f" {AT}.batch{says}" in text
    assert text.count("\n") == 0


@pytest.mark.parametrize(
    ("batch", "unused"),
    [
        ({"batchSize": 10}, "batchSize has no effect"),
        ({"timeout": "2s"}, "timeout has no effect"),
        ({"mode": "disable", "batchSize": 20}, "batchSize has no effect"),
        ({"batchSize": 20, "timeout": "2s"}, "batchSize and timeout have no effect"),
    ],
)
def test_what_is_said_of_a_batch_that_is_off_is_noticed(
    tmp_path: Path, batch: dict[str, Any], unused: str
) -> None:
    (notice,) = _notices(tmp_path, batch=batch)
    assert f" {AT}.batch.mode: is disable, so {unused}; write mode: enable for batches" in notice


def test_the_defaults_of_a_batch_may_be_spelled_out(tmp_path: Path) -> None:
    assert _notices(tmp_path, batch={"mode": "disable", "batchSize": 10, "timeout": "1s"}) == ()
    assert _notices(tmp_path, batch={"mode": "enable", "batchSize": 20}) == ()
    assert _notices(tmp_path, batch={}) == ()


def test_a_broken_batch_gets_no_advice_besides(tmp_path: Path) -> None:
    assert "so batchSize" not in problems_of(tmp_path, _trigger(batch={"mode": "on", "batchSize": 20}))

"""Conditions between a Kafka trigger's settings, and values that are refused or noticed."""

from pathlib import Path
from typing import Any

import pytest
from kafka_settings import AUTHORITY, KEY, PEM, RANGES, loaded, notices_of, problems_with

from headrace.runtime.errors import ConfigError


@pytest.mark.parametrize(
    ("attributes", "batch", "says"),
    [
        (RANGES, {}, "delivery: ranges needs batch.mode enable"),
        (RANGES | {"fetchMax": 10}, {"mode": "enable"}, "fetchMax: has no effect with delivery: ranges"),
        (
            RANGES | {"tls": {"enable": True, "insecureSkipVerify": True}},
            {"mode": "enable"},
            "insecureSkipVerify: must be false: Spark's Kafka client",
        ),
        (
            {},
            {"mode": "enable", "batchSize": 100_001},
            "delivery: events holds a batch in memory, 100000 at most",
        ),
    ],
)
def test_ranges_and_events_have_conditions_of_their_own(
    tmp_path: Path, attributes: dict[str, Any], batch: dict[str, Any], says: str
) -> None:
    assert f"attributes.{says}" in problems_with(tmp_path, attributes, batch=batch).replace("tls.", "")


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"topics": "a"}, "'a' is not a list of strings"),
        ({"topics": []}, "topics: is required: a list of at least one topic"),
        ({"topics": [""]}, "topics[0]: an empty string is no value"),
        ({"topics": ["a", 5]}, "topics[1]: 5 is not a string"),
        ({"topics": ["a", "a"]}, "the list names a twice"),
        ({"consumerGroup": ""}, "consumerGroup: is required"),
        ({"brokers": []}, "brokers: is required: a list of at least one host:port, or the trigger's url"),
        ({"partitions": [-1]}, "partitions[0]: -1 is out of range"),
        ({"partitions": [2**31]}, "partitions[0]: 2147483648 is out of range"),
        ({"fetchMin": 2**31}, "2147483648 is out of range; expected at most 2147483647"),
        ({"fetchDefault": 2**31}, "2147483648 is out of range; expected at most 2147483647"),
        ({"sessionTimeout": "1000h"}, "'1000h' is out of range; expected at most 596h31m23.647s"),
        ({"rebalanceTimeout": "1000h"}, "'1000h' is out of range; expected at most 596h31m23.647s"),
        ({"maxWaitTime": "1000h"}, "'1000h' is out of range; expected at most 596h31m23.647s"),
        ({"partitions": ["1"]}, "partitions[0]: '1' is not an int"),
        ({"fetchMin": "5"}, "'5' is not an int; expected a whole number, without quotes"),
        ({"fetchMin": True}, "true is not an int"),
        ({"fetchMin": 1.0}, "1.0 is not an int"),
        ({"fetchMin": -1}, "-1 is out of range; expected at least 0"),
        ({"channelBufferSize": 257}, "257 is out of range; expected at most 256"),
        ({"maxBufferedBytes": 0}, "0 is out of range; expected more than 0"),
        ({"sessionTimeout": "0"}, "'0' is out of range; expected more than 0s"),
        ({"sessionTimeout": 10}, "10 is not a duration; expected something like 10s or 1m30s"),
        ({"sessionTimeout": 10.5}, "10.5 is not a duration"),
        ({"workerAllocationMode": "Pool"}, "'Pool' is not known here; expected 'pool' or 'static'"),
        ({"initialOffset": "first"}, "'first' is not known here; expected 'earliest' or 'latest'"),
        ({"tls": {"minimumVersion": 1.3}}, "1.3 is not known here; expected '1.2' or '1.3'"),
        ({"tls": {"enable": "true"}}, "'true' is not a bool; expected true or false, without quotes"),
        ({"tls": {"enabled": True}}, "tls.enabled: unknown key; the nearest known key is enable"),
        ({"ackWindowSize": "x"}, "'x' is not an int"),
        ({"ackWindowSize": -1}, "ackWindowSize: -1 is out of range; expected at least 0"),
        ({"fetchMax": -1}, "fetchMax: -1 is out of range; expected at least 0"),
        ({"rebalanceRetryMax": -1}, "rebalanceRetryMax: -1 is out of range; expected at least 0"),
        ({"rebalanceRetryBackoff": "-1s"}, "'-1s' is out of range; expected at least 0s"),
        (
            {"explicitAckSemantics": "all"},
            "'all' is not known here; expected 'auto', 'individual' or 'cumulative'",
        ),
        ({"Topics": ["b"]}, "Topics: is the same setting as topics; keep one"),
        ({"sesionTimeout": "1s"}, "unknown key; the nearest known key is sessionTimeout"),
        ({"sasl": []}, "sasl: this is no mapping"),
        ({"sasl": {"enable": True, "password": "p"}}, "sasl.user: is required: sasl.enable is true"),
        ({"caCert": "no pem"}, "caCert: the value (not shown) is neither PEM text"),
        ({"caCert": KEY}, "caCert: holds no certificate"),
        (
            {"accessKey": AUTHORITY.pair("other").key, "accessCertificate": PEM},
            "accessKey: can't be used with its certificate (key values mismatch)",
        ),
        (
            dict(zip(("accessCertificate", "accessKey"), AUTHORITY.pair("me", password="p"), strict=True)),
            "accessKey: is encrypted; expected a key without a password",
        ),
        ({"accessKey": KEY}, "accessCertificate: is required beside accessKey"),
        ({"accessCertificate": PEM}, "accessKey: is required beside accessCertificate"),
        ({"heartbeatInterval": "10s"}, "10s must be below sessionTimeout, 10s"),
        ({"rebalanceTimeout": "5.1s"}, "5.1s must be above maxWaitHandlerDuringRebalance plus"),
        ({"maxWaitHandlerDuringRebalance": "4h"}, "rebalanceTimeout: 1m must be above"),
    ],
)
def test_wrong_attributes_are_refused(tmp_path: Path, attributes: dict[str, Any], says: str) -> None:
    assert says in problems_with(tmp_path, attributes)


def test_a_rule_keeps_quiet_about_values_that_have_a_problem_already(tmp_path: Path) -> None:
    text = problems_with(tmp_path, {"sessionTimeout": "x", "heartbeatInterval": "15s"})
    assert text.count("\n") == 0
    assert "'x' is not a duration" in text


@pytest.mark.parametrize("mode", ["enable", "explicitOnly"])
def test_explicit_acks_need_static_allocation(tmp_path: Path, mode: str) -> None:
    says = f"attributes.workerAllocationMode: must be static with explicitAckMode {mode}"
    for attributes in ({}, {"workerAllocationMode": "pool"}):
        assert says in problems_with(tmp_path, attributes, explicitAckMode=mode, numWorkers=2)
        assert notices_of(tmp_path, attributes, explicitAckMode=mode) == ""  # of one worker they are the same
    static = {"workerAllocationMode": "static"}
    assert notices_of(tmp_path, static, explicitAckMode=mode, numWorkers=2) == ""


def test_ack_semantics_without_explicit_acks_are_noticed(tmp_path: Path) -> None:
    says = "attributes.explicitAckSemantics: has no effect while explicitAckMode is disable"
    for semantics in ("individual", "cumulative"):
        assert says in notices_of(tmp_path, {"explicitAckSemantics": semantics})
    assert says in notices_of(tmp_path, {"explicitAckSemantics": "cumulative"}, explicitAckMode="disable")
    assert notices_of(tmp_path) == ""


def test_ack_semantics_are_no_news_where_they_count_or_defaults_are_spelled_out(tmp_path: Path) -> None:
    attributes = {"explicitAckSemantics": "cumulative", "workerAllocationMode": "static"}
    assert notices_of(tmp_path, attributes, explicitAckMode="enable") == ""
    assert notices_of(tmp_path, {"explicitAckSemantics": "auto"}, explicitAckMode="disable") == ""


def test_narrow_but_legal_times_are_noticed(tmp_path: Path) -> None:
    assert "4s is above a third of sessionTimeout, 10s" in notices_of(tmp_path, {"heartbeatInterval": "4s"})
    assert "5.2s leaves little time after the waits of 5.1s; 6.12s or more is safe" in notices_of(
        tmp_path, {"rebalanceTimeout": "5.2s"}
    )
    assert notices_of(tmp_path, {"rebalanceTimeout": "6.12s", "heartbeatInterval": "3.333s"}) == ""


def test_a_config_error_is_one_line_for_each_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        loaded(tmp_path, {"fetchMin": -1, "fetchMax": -1})
    assert len(str(raised.value).splitlines()) == len(raised.value.problems) == 2

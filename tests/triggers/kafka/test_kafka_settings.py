"""The Kafka trigger's attributes and annotations, against the table that Nuclio documents."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from function_files import FULL, KINDS, SPECS, load_changed
from kafka_settings import AUTHORITY, KEY, PEM, changed, loaded, nested, notices_of

from headrace.runtime.config.delivery_policy import AckMode, BatchPolicy, DeliveryPolicy
from headrace.runtime.config.function_reader import load_function
from headrace.runtime.partitions.flow_control import FlowLimit
from headrace.runtime.settings.declare import DeclaredSetting, settings_of
from headrace.triggers.kafka.settings.model import KafkaSettings

CA = AUTHORITY.pem
DECLARED = {".".join(declared.keys): declared for declared in settings_of(KafkaSettings)}


@dataclass(frozen=True, slots=True)
class Row:
    """One attribute: its annotation, its default, and a value in both spellings."""

    attribute: str
    annotation: str
    default: object
    written: Any
    annotated: str
    value: object
    beside: dict[str, Any] = field(default_factory=dict)


SASL = {"sasl": {"user": "u", "password": "p"}}
ROWS = [
    Row("balanceStrategy", "kafka-balance-strategy", "range", "RoundRobin", "Sticky", "roundrobin"),
    Row("sessionTimeout", "kafka-session-timeout", 10.0, "30s", "20s", 30.0),
    Row("heartbeatInterval", "kafka-heartbeat-interval", 3.0, "500ms", "1s", 0.5),
    Row("workerAllocationMode", "kafka-worker-allocation-mode", "pool", "static", "pool", "static"),
    Row("fetchMin", "kafka-fetch-min", 1, 0, "7", 0),
    Row("fetchDefault", "kafka-fetch-default", 1048576, 5, "7", 5),
    Row("fetchMax", "kafka-fetch-max", 0, 1048576, "7", 1048576),
    Row("channelBufferSize", "kafka-channel-buffer-size", 256, 5, "7", 5),
    Row("maxProcessingTime", "kafka-max-processing-time", 300.0, "1h30m", "1s", 5400.0),
    Row("rebalanceTimeout", "kafka-rebalance-timeout", 60.0, "2m", "3m", 120.0),
    Row("rebalanceRetryMax", "kafka-rebalance-retry-max", 4, 0, "7", 0),
    Row("rebalanceRetryBackoff", "kafka-rebalance-retry-backoff", 2.0, "1s", "3s", 1.0),
    Row("maxWaitHandlerDuringRebalance", "kafka-max-wait-handler-during-rebalance", 5.0, "8s", "9s", 8.0),
    Row("retryBackoff", "kafka-retry-backoff", 2.0, "1s", "3s", 1.0),
    Row("maxWaitTime", "kafka-max-wait-time", 0.25, "1s", "3s", 1.0),
    Row("ackWindowSize", "kafka-window-size", 0, "3", "7", 3),
    Row("version", "kafka-version", "", "2.8.0", "1.0.0", "2.8.0"),
    Row("logLevel", "kafka-log-level", 0, 5, "6", 5),
    Row("caCert", "kafka-ca-cert", "", CA, PEM, CA),
    Row("accessKey", "kafka-access-key", "", KEY, PEM, KEY, {"accessCertificate": PEM}),
    Row("accessCertificate", "kafka-access-cert", "", PEM, KEY, PEM, {"accessKey": KEY}),
    Row("tls.enable", "kafka-tls-enabled", False, True, "false", True),
    Row("tls.insecureSkipVerify", "kafka-tls-insecure-skip-verify", False, True, "0", True),
    Row("tls.minimumVersion", "kafka-tls-minimum-version", "1.2", "1.3", "1.2", "1.3"),
    Row("sasl.enable", "kafka-sasl-enabled", False, True, "F", True, SASL),
    Row("sasl.user", "kafka-sasl-user", "", "a", "b", "a"),
    Row("sasl.password", "kafka-sasl-password", "", "a", "b", "a"),
    Row("sasl.mechanism", "kafka-sasl-mechanism", "PLAIN", "SCRAM-SHA-256", "PLAIN", "SCRAM-SHA-256"),
    Row("sasl.oauth.clientID", "kafka-sasl-oauth-client-id", "", "a", "a", "a"),
    Row("sasl.oauth.clientSecret", "kafka-sasl-oauth-client-secret", "", "a", "a", "a"),
    Row("sasl.oauth.tokenURL", "kafka-sasl-oauth-token-url", "", "http://a/t", "http://a/t", "http://a/t"),
    Row("sasl.oauth.scopes", "kafka-sasl-oauth-scopes", (), ["a", "b"], "a, b", ("a", "b")),
    Row("sasl.handshake", "kafka-sasl-handshake", True, True, "true", True),
    Row("partitions", "", (), [0, 3], "", (0, 3)),
    Row("initialOffset", "", "earliest", "Latest", "", "latest"),
    Row("maxBatchBytes", "", 64 * 1024 * 1024, 1, "", 1),
    Row("maxBufferedBytes", "", 64 * 1024 * 1024, 1, "", 1),
    Row("isolationLevel", "", "read_uncommitted", "read_committed", "", "read_committed"),
    Row("onFailure.maxAttempts", "", 4, 0, "", 0),
    Row("onFailure.backoff", "", 1.0, "0s", "", 0.0),
    Row("onFailure.maxBackoff", "", 30.0, "1m", "", 60.0),
    Row("onFailure.then", "", "halt", "skip", "", "skip"),
    Row("onFailure.deadLetterTopic", "", "", "a.dlq", "", "a.dlq"),
    Row("explicitAckSemantics", "", "auto", "cumulative", "", "cumulative"),
    Row("ordering", "", "partition", "key", "", "key"),
    Row("maxConcurrency", "", 1, 1000, "", 1000),
    Row("ackDeadline", "", 0.0, "90s", "", 90.0),
    Row("delivery", "", "events", "events", "", "events"),
    Row("metadataTimeout", "kafka-metadata-timeout", 15, "5s", "5s", 5),
    Row("metadataRetryMax", "kafka-metadata-retry-max", 10, 5, "5", 5),
    Row("metadataRetryBackoff", "kafka-metadata-retry-backoff", 2, "5s", "5s", 5),
    Row("adminTimeout", "kafka-admin-timeout", 15, "5s", "5s", 5),
    Row("adminRetryMax", "kafka-admin-retry-max", 10, 5, "5", 5),
    Row("adminRetryBackoff", "kafka-admin-retry-backoff", 2, "5s", "5s", 5),
    Row("netDialTimeout", "kafka-net-dial-timeout", 15, "5s", "5s", 5),
    Row("netKeepAliveInterval", "kafka-net-keep-alive-interval", 90, "5s", "5s", 5),
    Row("workerTerminationWaitTime", "kafka-termination-wait-time", 30, "5s", "5s", 5),
    Row("maxInFlight", "", 0, 2000, "", 2000),
    Row("resultTopic", "", "", "results", "", "results"),
    Row("topicPattern", "", "", r"a\..*", "", r"a\..*"),
    Row("topicRefresh", "", 60.0, "5m", "", 300.0),
    Row("pollInterval", "", 10.0, "1s", "", 1.0),
    Row("exactlyOnce", "", False, True, "", True),
    Row("groupProtocol", "", "classic", "Consumer", "", "consumer"),
    Row("groupRemoteAssignor", "", "uniform", "Range", "", "range", {"groupProtocol": "consumer"}),
    Row("groupInstanceId", "", "", "box-1", "", "box-1", {"groupProtocol": "consumer"}),
]
ELSEWHERE = {"topics", "brokers", "consumerGroup", "secretPath"}
BY_ATTRIBUTE = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.attribute)
ANNOTATED = pytest.mark.parametrize("row", [r for r in ROWS if r.annotation], ids=lambda row: row.attribute)


def value_of(own: KafkaSettings, declared: DeclaredSetting) -> object:
    value: object = own
    for name in declared.name.split("."):
        value = getattr(value, name)
    return value


def test_the_tables_here_name_every_attribute() -> None:
    assert {row.attribute for row in ROWS} | ELSEWHERE == DECLARED.keys()
    assert {row.attribute: row.annotation for row in ROWS} == {
        row.attribute: DECLARED[row.attribute].setting.annotation for row in ROWS
    }


def test_every_attribute_says_what_it_does() -> None:
    for declared in DECLARED.values():
        assert declared.setting.effect.endswith("."), declared.name
        assert declared.field.description == declared.setting.effect


def test_names_carry_the_unit() -> None:
    for declared in DECLARED.values():
        if declared.setting.unit in ("seconds", "bytes"):
            assert declared.name.endswith(declared.setting.unit)


@BY_ATTRIBUTE
def test_a_missing_attribute_has_the_documented_default(tmp_path: Path, row: Row) -> None:
    assert value_of(loaded(tmp_path), DECLARED[row.attribute]) == row.default


@BY_ATTRIBUTE
def test_an_attribute_sets_the_value_whatever_its_case(tmp_path: Path, row: Row) -> None:
    for attribute in (row.attribute, row.attribute.lower(), row.attribute.upper()):
        outer, _, _ = attribute.partition(".")
        beside = {outer if key == outer.lower() else key: value for key, value in row.beside.items()}
        own = loaded(tmp_path, beside, nested(attribute, row.written))
        assert value_of(own, DECLARED[row.attribute]) == row.value


@ANNOTATED
def test_an_annotation_sets_the_value_too(tmp_path: Path, row: Row) -> None:
    written = ",".join(row.written) if isinstance(row.written, list) else str(row.written)
    text = written.lower() if isinstance(row.written, bool) else written
    annotations = {f"nuclio.io/{row.annotation}": text}
    (trigger,) = load_changed(tmp_path, changed(row.beside, annotations=annotations)).triggers
    assert isinstance(trigger.settings, KafkaSettings)
    assert value_of(trigger.settings, DECLARED[row.attribute]) == row.value
    assert trigger.origins[DECLARED[row.attribute].name] == "annotation"


@ANNOTATED
def test_an_attribute_beats_its_annotation(tmp_path: Path, row: Row) -> None:
    given = (row.beside, nested(row.attribute, row.written))
    annotations = {f"nuclio.io/{row.annotation}": row.annotated}
    (trigger,) = load_changed(tmp_path, changed(*given, annotations=annotations)).triggers
    assert isinstance(trigger.settings, KafkaSettings)
    assert value_of(trigger.settings, DECLARED[row.attribute]) == row.value
    assert trigger.origins[DECLARED[row.attribute].name] == "attribute"


@pytest.mark.parametrize(
    ("annotation", "text", "name", "value"),
    [
        ("kafka-fetch-min", "7", "fetch_min_bytes", 7),
        ("kafka-session-timeout", "20s", "session_timeout_seconds", 20.0),
        ("kafka-balance-strategy", "Sticky", "balance_strategy", "sticky"),
        ("kafka-tls-enabled", "True", "tls.enable", True),
        ("kafka-sasl-handshake", "true", "sasl.handshake", True),
        ("kafka-ca-cert", PEM, "ca_cert", PEM),
    ],
)
def test_an_annotations_text_becomes_the_settings_type(
    tmp_path: Path, annotation: str, text: str, name: str, value: object
) -> None:
    own = loaded(tmp_path, annotations={f"nuclio.io/{annotation}": text})
    (declared,) = (found for found in DECLARED.values() if found.name == name)
    assert value_of(own, declared) == value


def test_the_old_annotation_of_the_ack_window_is_read_too(tmp_path: Path) -> None:
    own = loaded(tmp_path, annotations={"custom.nuclio.io/kafka-window-size": "10"})
    assert own.ack_window_size == 10


def test_a_channel_buffer_of_zero_is_the_default(tmp_path: Path) -> None:
    assert loaded(tmp_path, {"channelBufferSize": 0}).channel_buffer_size == 256


def test_what_is_in_flight_is_as_it_says_or_as_suits_what_settles_a_record(tmp_path: Path) -> None:
    plain, unset = DeliveryPolicy(), loaded(tmp_path).limits
    explicit, batch = (
        replace(plain, ack_mode=AckMode.EXPLICIT_ONLY),
        replace(plain, batch=BatchPolicy(500, 1)),
    )
    assert unset.of_partition(plain, 1) == FlowLimit(256, 2000, 2000)
    assert unset.of_partition(explicit, 1) == FlowLimit(256, 256, 2000)
    assert unset.of_partition(replace(plain, exactly_once=True), 1) == FlowLimit.of(256)
    assert unset.of_partition(batch, 1) == FlowLimit.of(1000)
    assert unset.of_partition(replace(plain, ordering="key", max_concurrency=100), 3).waiting == 600
    for number in (1, 10, 5000):
        given = loaded(tmp_path, {"maxInFlight": number}).limits
        for policy in (plain, explicit):
            assert given.of_partition(policy, 1) == FlowLimit(max(256, number), number, number)
        assert given.of_partition(batch, 1) == FlowLimit.of(max(1000, number))


def test_a_bound_of_what_is_in_flight_that_has_no_effect_is_noticed(tmp_path: Path) -> None:
    enabled: dict[str, Any] = {"mode": "enable", "batchSize": 8}
    ranges = {"maxInFlight": 2000, "delivery": "ranges"}
    assert "no effect with delivery: ranges" in notices_of(tmp_path, ranges, batch=enabled)
    assert "no effect below two batches, 16" in notices_of(tmp_path, {"maxInFlight": 15}, batch=enabled)
    assert "maxInFlight" not in notices_of(tmp_path, {"maxInFlight": 16}, batch=enabled)
    assert "maxInFlight" not in notices_of(tmp_path, {"maxInFlight": 1})


def test_an_empty_string_is_not_given_as_in_go(tmp_path: Path) -> None:
    own = loaded(tmp_path, {"sessionTimeout": ""}, annotations={"nuclio.io/kafka-session-timeout": "20s"})
    assert own.session_timeout_seconds == 20


def test_the_full_example_shows_every_built_attribute_with_its_default() -> None:
    minimal, full = (load_function(SPECS / f"kafka-{name}.yaml", KINDS) for name in ("minimal", "full"))
    assert full.triggers[0].settings == minimal.triggers[0].settings
    attributes = FULL["spec"]["triggers"]["orders"]["attributes"]
    for keys, declared in DECLARED.items():
        written = attributes
        for key in declared.keys:
            written = written.get(key, {}) if isinstance(written, dict) else written
        is_shown = declared.setting.built and not declared.setting.no_effect
        assert (written != {}) == is_shown, keys


def test_settings_may_be_built_in_python_too() -> None:
    own = KafkaSettings(topics=("a",), brokers=("b:1",), consumer_group="g", session_timeout_seconds=5.0)
    assert own.session_timeout_seconds == 5
    assert own.sasl.mechanism == "PLAIN"


def test_the_schema_tells_what_a_file_may_hold() -> None:
    schema = KafkaSettings.model_json_schema(by_alias=True)
    timeout = schema["properties"]["sessionTimeout"]
    assert (timeout["type"], timeout["default"], timeout["unit"]) == ("string", "10s", "seconds")
    assert schema["properties"]["caCert"]["writeOnly"]
    assert schema["properties"]["balanceStrategy"]["builtValues"] == ["range", "roundrobin", "sticky"]
    assert schema["required"] == ["consumerGroup"]

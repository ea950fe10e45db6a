"""The Kafka trigger's attributes and annotations, against the table that Nuclio documents."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from certificates import Authority
from function_files import FULL, KINDS, SPECS, load_changed, problems_of

from headrace.runtime.config.function import load_function
from headrace.runtime.errors import ConfigError
from headrace.runtime.settings.declare import Declared, settings_of
from headrace.runtime.streams.assignment import Limits
from headrace.triggers.kafka.settings.model import KafkaSettings
from headrace.triggers.kafka.settings.security import unflatten_pem

AUTHORITY = Authority()
PEM, KEY = AUTHORITY.pair("me")
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
    Row("ordering", "", "partition", "partition", "", "partition"),
    Row("maxConcurrency", "", 1, 1, "", 1),
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
]
ELSEWHERE = {"topics", "brokers", "consumerGroup", "secretPath"}
NOT_BUILT = {
    "topicPattern": "a.*",
    "topicRefresh": "1m",
    "pollInterval": "10s",
    "groupInstanceId": "a",
}
BY_ATTRIBUTE = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.attribute)
ANNOTATED = pytest.mark.parametrize("row", [r for r in ROWS if r.annotation], ids=lambda row: row.attribute)


def _nested(attribute: str, value: object) -> dict[str, Any]:
    for key in reversed(attribute.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = yaml.safe_load(yaml.safe_dump(value))


def _change(*attributes: dict[str, Any], annotations: dict[str, str] | None = None, **fields: Any) -> Any:
    def change(document: dict[str, Any]) -> None:
        trigger = document["spec"]["triggers"]["t"]
        trigger.update(fields)
        for more in attributes:
            _merge(trigger["attributes"], more)
        document["metadata"]["annotations"].update(annotations or {})

    return change


def _load(folder: Path, *attributes: dict[str, Any], **given: Any) -> KafkaSettings:
    own = load_changed(folder, _change(*attributes, **given)).triggers[0].settings
    assert isinstance(own, KafkaSettings)
    return own


def _notices(folder: Path, *attributes: dict[str, Any], **given: Any) -> str:
    return "\n".join(load_changed(folder, _change(*attributes, **given)).notices)


def _problems(folder: Path, *attributes: dict[str, Any], **given: Any) -> str:
    return problems_of(folder, _change(*attributes, **given))


def _value(own: KafkaSettings, declared: Declared) -> object:
    value: object = own
    for name in declared.name.split("."):
        value = getattr(value, name)
    return value


def test_the_tables_here_name_every_attribute() -> None:
    assert {row.attribute for row in ROWS} | ELSEWHERE | NOT_BUILT.keys() == DECLARED.keys()
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
    assert _value(_load(tmp_path), DECLARED[row.attribute]) == row.default


@BY_ATTRIBUTE
def test_an_attribute_sets_the_value_whatever_its_case(tmp_path: Path, row: Row) -> None:
    for attribute in (row.attribute, row.attribute.lower(), row.attribute.upper()):
        outer, _, _ = attribute.partition(".")
        beside = {outer if key == outer.lower() else key: value for key, value in row.beside.items()}
        own = _load(tmp_path, beside, _nested(attribute, row.written))
        assert _value(own, DECLARED[row.attribute]) == row.value


@ANNOTATED
def test_an_annotation_sets_the_value_too(tmp_path: Path, row: Row) -> None:
    written = ",".join(row.written) if isinstance(row.written, list) else str(row.written)
    text = written.lower() if isinstance(row.written, bool) else written
    annotations = {f"nuclio.io/{row.annotation}": text}
    (trigger,) = load_changed(tmp_path, _change(row.beside, annotations=annotations)).triggers
    assert isinstance(trigger.settings, KafkaSettings)
    assert _value(trigger.settings, DECLARED[row.attribute]) == row.value
    assert trigger.origins[DECLARED[row.attribute].name] == "annotation"


@ANNOTATED
def test_an_attribute_beats_its_annotation(tmp_path: Path, row: Row) -> None:
    given = (row.beside, _nested(row.attribute, row.written))
    annotations = {f"nuclio.io/{row.annotation}": row.annotated}
    (trigger,) = load_changed(tmp_path, _change(*given, annotations=annotations)).triggers
    assert isinstance(trigger.settings, KafkaSettings)
    assert _value(trigger.settings, DECLARED[row.attribute]) == row.value
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
    own = _load(tmp_path, annotations={f"nuclio.io/{annotation}": text})
    (declared,) = (found for found in DECLARED.values() if found.name == name)
    assert _value(own, declared) == value


@pytest.mark.parametrize("attribute", NOT_BUILT)
def test_an_attribute_that_is_not_built_is_refused(tmp_path: Path, attribute: str) -> None:
    text = _problems(tmp_path, _nested(attribute, NOT_BUILT[attribute]))
    assert f"attributes.{attribute}: is known, but not built into this version" in text


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("balanceStrategy", "cooperative"),
        ("ordering", "key"),
        ("maxConcurrency", 2),
    ],
)
def test_a_value_that_is_not_built_is_refused(tmp_path: Path, attribute: str, value: object) -> None:
    text = _problems(tmp_path, _nested(attribute, value))
    assert f"attributes.{attribute}: {value!r} is known, but not built into this version" in text


def test_the_old_annotation_of_the_ack_window_is_read_too(tmp_path: Path) -> None:
    own = _load(tmp_path, annotations={"custom.nuclio.io/kafka-window-size": "10"})
    assert own.ack_window_size == 10


RANGES = {"delivery": "ranges"}


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
    assert f"attributes.{says}" in _problems(tmp_path, attributes, batch=batch).replace("tls.", "")


def test_spark_reads_the_topics_with_the_triggers_own_security(tmp_path: Path) -> None:
    sasl = {"enable": True, "user": "me", "password": 'a"b\\c', "mechanism": "SCRAM-SHA-512"}
    own = _load(tmp_path, RANGES, {"sasl": sasl, "tls": {"enable": True}}, batch={"mode": "enable"})
    assert own.spark_source_options == {
        "kafka.bootstrap.servers": ",".join(own.brokers),
        "kafka.isolation.level": "read_uncommitted",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        r""" username="me" password="a\"b\\c";""",
    }


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
    assert says in _problems(tmp_path, attributes)


def test_a_rule_keeps_quiet_about_values_that_have_a_problem_already(tmp_path: Path) -> None:
    text = _problems(tmp_path, {"sessionTimeout": "x", "heartbeatInterval": "15s"})
    assert text.count("\n") == 0
    assert "'x' is not a duration" in text


@pytest.mark.parametrize("mode", ["enable", "explicitOnly"])
def test_explicit_acks_need_static_allocation(tmp_path: Path, mode: str) -> None:
    says = f"attributes.workerAllocationMode: must be static with explicitAckMode {mode}"
    for attributes in ({}, {"workerAllocationMode": "pool"}):
        assert says in _problems(tmp_path, attributes, explicitAckMode=mode, numWorkers=2)
        assert _notices(tmp_path, attributes, explicitAckMode=mode) == ""  # of one worker they are the same
    static = {"workerAllocationMode": "static"}
    assert _notices(tmp_path, static, explicitAckMode=mode, numWorkers=2) == ""


def test_ack_semantics_without_explicit_acks_are_noticed(tmp_path: Path) -> None:
    says = "attributes.explicitAckSemantics: has no effect while explicitAckMode is disable"
    for semantics in ("individual", "cumulative"):
        assert says in _notices(tmp_path, {"explicitAckSemantics": semantics})
    assert says in _notices(tmp_path, {"explicitAckSemantics": "cumulative"}, explicitAckMode="disable")
    assert _notices(tmp_path) == ""


def test_ack_semantics_are_no_news_where_they_count_or_defaults_are_spelled_out(tmp_path: Path) -> None:
    attributes = {"explicitAckSemantics": "cumulative", "workerAllocationMode": "static"}
    assert _notices(tmp_path, attributes, explicitAckMode="enable") == ""
    assert _notices(tmp_path, {"explicitAckSemantics": "auto"}, explicitAckMode="disable") == ""


def test_narrow_but_legal_times_are_noticed(tmp_path: Path) -> None:
    assert "4s is above a third of sessionTimeout, 10s" in _notices(tmp_path, {"heartbeatInterval": "4s"})
    assert "5.2s leaves little time after the waits of 5.1s; 6.12s or more is safe" in _notices(
        tmp_path, {"rebalanceTimeout": "5.2s"}
    )
    assert _notices(tmp_path, {"rebalanceTimeout": "6.12s", "heartbeatInterval": "3.333s"}) == ""


def test_a_channel_buffer_of_zero_is_the_default(tmp_path: Path) -> None:
    assert _load(tmp_path, {"channelBufferSize": 0}).channel_buffer_size == 256


def unsettled(settings: KafkaSettings) -> int:
    return Limits(settings.channel_buffer_size, settings.max_in_flight, settings.max_buffered_bytes).unsettled


def test_the_larger_of_buffer_and_in_flight_counts(tmp_path: Path) -> None:
    assert unsettled(_load(tmp_path)) == 256
    assert unsettled(_load(tmp_path, {"maxInFlight": 2000})) == 2000
    assert unsettled(_load(tmp_path, {"maxInFlight": 10, "channelBufferSize": 100})) == 100
    assert "no effect up to channelBufferSize, 256; lower that" in _notices(tmp_path, {"maxInFlight": 10})
    ranges = {"maxInFlight": 2000, "delivery": "ranges"}
    assert "no effect with delivery: ranges" in _notices(tmp_path, ranges, batch={"mode": "enable"})


def test_an_empty_string_is_not_given_as_in_go(tmp_path: Path) -> None:
    own = _load(tmp_path, {"sessionTimeout": ""}, annotations={"nuclio.io/kafka-session-timeout": "20s"})
    assert own.session_timeout_seconds == 20


def test_the_triggers_url_stands_in_for_brokers_and_brokers_win(tmp_path: Path) -> None:
    assert _load(tmp_path, {"brokers": []}, url="u:9092").brokers == ("u:9092",)
    assert _load(tmp_path, url="u:9092").brokers == ("b:9092",)


def test_what_has_no_effect_is_noticed(tmp_path: Path) -> None:
    notices = _notices(
        tmp_path, {"version": "2.0.0", "logLevel": 6, "sasl": {"user": "u"}}, username="u", password="p"
    )
    assert "attributes.version: has no effect here" in notices
    assert "attributes.logLevel: has no effect here" in notices
    assert "sasl.enable: a user or a password is given" in notices
    assert "username, password and secret have no effect with Kafka" in notices


def test_a_ca_certificate_turns_tls_on(tmp_path: Path) -> None:
    assert _load(tmp_path, {"caCert": PEM}).uses_tls
    assert not _load(tmp_path).uses_tls


@pytest.mark.parametrize("flat", [PEM.replace("\n", "@"), PEM.replace("\n", " "), PEM.strip(), PEM])
def test_flattened_certificates_get_their_lines_back(flat: str) -> None:
    assert unflatten_pem(flat) == PEM
    assert unflatten_pem(flat + flat) == PEM + PEM


def test_an_encrypted_keys_header_lines_stay_apart() -> None:
    text = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,AA\n\nAAAA\n"
        "-----END RSA PRIVATE KEY-----\n"
    )
    assert unflatten_pem(text.replace("\n", "@")) == text


def test_secrets_may_be_files_in_the_secret_path(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "ca.crt").write_text(PEM.replace("\n", "@"))
    (folder / "password").write_text("hunter2\n")
    own = _load(
        tmp_path,
        {"secretPath": str(folder), "caCert": "ca.crt", "sasl": {"enable": True, "user": "u"}},
        annotations={"nuclio.io/kafka-sasl-password": "password"},
    )
    assert (own.ca_cert, own.sasl.password) == (PEM, "hunter2")
    assert _load(tmp_path, {"secretPath": "secrets", "caCert": "ca.crt"}).secret_path == str(folder)
    assert "hunter2" not in repr(own)


def test_a_secret_never_leads_out_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (tmp_path / "outside").write_text("content")
    for password in ("../outside", str(tmp_path / "outside"), "p" * 5000, "."):
        own = _load(tmp_path, {"secretPath": "secrets", "sasl": {"password": password}})
        assert own.sasl.password == password


def test_a_secret_file_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"\xff\xfe")
    text = _problems(tmp_path, {"secretPath": ".", "caCert": "ca.crt"})
    assert "caCert: its file is not UTF-8 text" in text


def test_a_secret_path_without_a_folder_is_noticed(tmp_path: Path) -> None:
    assert "secretPath: names no folder here" in _notices(tmp_path, {"secretPath": "missing"})


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
    assert schema["properties"]["topicPattern"]["notBuilt"]
    assert schema["required"] == ["topics", "consumerGroup"]


def test_a_config_error_is_one_line_for_each_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        _load(tmp_path, {"fetchMin": -1, "fetchMax": -1})
    assert len(str(raised.value).splitlines()) == len(raised.value.problems) == 2


@pytest.mark.parametrize("attribute", ["caCert", "accessCertificate"])
def test_a_certificate_may_be_a_file_by_its_full_path(tmp_path: Path, attribute: str) -> None:
    file = tmp_path / "ca.crt"
    file.write_text(PEM)
    own = _load(tmp_path, {"caCert": PEM, "accessKey": KEY, "accessCertificate": PEM, attribute: str(file)})
    assert (own.ca_cert, own.access_certificate) == (PEM, PEM)


def test_a_certificate_whose_file_is_not_there_is_said(tmp_path: Path) -> None:
    text = _problems(tmp_path, annotations={"nuclio.io/kafka-ca-cert": f"{tmp_path}/missing.crt"})
    assert "is neither PEM text (-----BEGIN ...-----) nor a file, by full path or in secretPath" in text


def test_a_password_that_looks_like_a_path_is_a_password(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("other")
    own = _load(tmp_path, {"sasl": {"enable": True, "user": "u", "password": str(file)}})
    assert own.sasl.password == str(file)


def test_a_handshake_that_is_switched_off_is_sent_all_the_same(tmp_path: Path) -> None:
    notices = _notices(tmp_path, {"sasl": {"handshake": False}})
    assert "sasl.handshake: has no effect here: the Kafka client always sends its handshake" in notices
    assert _load(tmp_path, {"sasl": {"handshake": False}}).sasl.handshake


@pytest.mark.parametrize("key", ["metadata-retry-max", "admin-retry-max", "net-dial-timeout"])
def test_what_only_nuclios_client_has_is_noticed_in_an_annotation_too(tmp_path: Path, key: str) -> None:
    value = "5s" if key.endswith("timeout") else "5"
    notices = _notices(tmp_path, annotations={f"nuclio.io/kafka-{key}": value})
    assert f"annotations.nuclio.io/kafka-{key}: has no effect here: " in notices


def test_what_mlrun_leaves_beside_the_attributes_is_noticed_and_changes_nothing(tmp_path: Path) -> None:
    twins = {
        "explicit_ack_mode": "explicitOnly",
        "worker_allocation_mode": "static",
        "security_protocol": "SASL_SSL",
        "sasl_plain_password": "hunter2",
        "new_topic": True,
    }
    notices = _notices(tmp_path, twins)
    assert "attributes.worker_allocation_mode: has no effect here: mlrun's own Kafka client" in notices
    assert len(notices.splitlines()) == len(twins)
    assert "hunter2" not in notices
    assert _load(tmp_path, twins).worker_allocation_mode == "pool"


@pytest.mark.parametrize(
    ("place", "key", "says"),
    [
        ("attributes.tls", "minVersion", "unknown key; the nearest known key is minimumVersion"),
        ("attributes", "ackMode", "unknown key; the nearest known key is "),
        (
            "attributes",
            "workerTerminationTimeout",
            "unknown key here; it is a field of the trigger, beside attributes",
        ),
        ("attributes", "numWorkers", "unknown key here; it is a field of the trigger, beside attributes"),
        ("", "sessionTimeout", "unknown key here; it is an attribute of kafka-cluster"),
        ("", "numWorker", "unknown key; the nearest known key is numWorkers"),
    ],
)
def test_typos_of_nuclios_own_pages_name_the_key_that_was_meant(
    tmp_path: Path, place: str, key: str, says: str
) -> None:
    def change(document: dict[str, Any]) -> None:
        mapping = document["spec"]["triggers"]["t"]
        for part in filter(None, place.split(".")):
            mapping = mapping.setdefault(part, {})
        mapping[key] = "10s"

    text = problems_of(tmp_path, change)
    assert f"{key}: {says}" in text
    assert "_" not in text.partition(": unknown key")[2]  # none of mlrun's twins


def test_a_typo_in_build_names_the_key_that_was_meant(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["build"] = {"noBaseImagePull": True}

    says = "spec.build.noBaseImagePull: unknown key; the nearest known key is noBaseImagesPull"
    assert says in problems_of(tmp_path, change)

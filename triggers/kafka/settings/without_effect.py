"""Attributes that Nuclio's Kafka client has, and ours has no use for: known, checked, and noticed."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from headrace.runtime.settings.declare import KeysLike, Settings, setting
from headrace.runtime.settings.types import Count, Seconds, Text

_ANY_VERSION = "the client finds out what the broker speaks"
_OTHER_LOG = "the command line sets the log's level"
_METADATA = "the client asks for metadata until it gets some"
_ADMIN = "no topic is made or changed for a trigger"
_DIAL = "the client waits for a connection as for any answer, rebalanceTimeout and 5s at least"
_KEEP_ALIVE = "heartbeats and fetches keep connections alive"
_TRIGGER_WAIT = "the trigger's own workerTerminationTimeout counts, beside attributes"
_MLRUN = "mlrun's own Kafka client reads it, a trigger doesn't: its settings have other names, in camelCase"
# Left beside the attributes that mlrun makes of them: its own keys, and those of the client that it uses.
_MLRUN_KEYS = (
    "explicit_ack_mode worker_allocation_mode max_workers new_topic group initial_offset"
    " consumer_group kafka_bootstrap_servers kafka_brokers"
    " bootstrap_servers client_id group_id auto_offset_reset enable_auto_commit"
    " auto_commit_interval_ms api_version security_protocol sasl_mechanism sasl_plain_username"
    " sasl_plain_password sasl_kerberos_service_name sasl_kerberos_domain_name"
    " sasl_oauth_token_provider ssl_check_hostname ssl_cafile ssl_certfile ssl_keyfile ssl_password"
    " ssl_crlfile ssl_ciphers request_timeout_ms retry_backoff_ms reconnect_backoff_ms"
    " reconnect_backoff_max_ms connections_max_idle_ms metadata_max_age_ms max_poll_records"
    " max_poll_interval_ms session_timeout_ms heartbeat_interval_ms fetch_min_bytes"
    " fetch_max_wait_ms fetch_max_bytes max_partition_fetch_bytes"
    " partition_assignment_strategy consumer_timeout_ms receive_buffer_bytes send_buffer_bytes"
)


def _unused(key: str, default: object, annotation: str, why: str, unit: str = "") -> Any:
    return setting(key, default, annotation=annotation, unit=unit, no_effect=why, effect="None.")


class ClientAttributes(Settings):
    """Attributes that only Nuclio's client uses."""

    version: Text = _unused("version", "", "kafka-version", _ANY_VERSION)
    log_level: Count = _unused("logLevel", 0, "kafka-log-level", _OTHER_LOG)
    metadata_timeout_seconds: Annotated[Seconds, Ge(0)] = _unused(
        "metadataTimeout", 15.0, "kafka-metadata-timeout", _METADATA, unit="seconds"
    )
    metadata_retry_max: Annotated[Count, Ge(0)] = _unused(
        "metadataRetryMax", 10, "kafka-metadata-retry-max", _METADATA
    )
    metadata_retry_backoff_seconds: Annotated[Seconds, Ge(0)] = _unused(
        "metadataRetryBackoff", 2.0, "kafka-metadata-retry-backoff", _METADATA, unit="seconds"
    )
    admin_timeout_seconds: Annotated[Seconds, Ge(0)] = _unused(
        "adminTimeout", 15.0, "kafka-admin-timeout", _ADMIN, unit="seconds"
    )
    admin_retry_max: Annotated[Count, Ge(0)] = _unused("adminRetryMax", 10, "kafka-admin-retry-max", _ADMIN)
    admin_retry_backoff_seconds: Annotated[Seconds, Ge(0)] = _unused(
        "adminRetryBackoff", 2.0, "kafka-admin-retry-backoff", _ADMIN, unit="seconds"
    )
    net_dial_timeout_seconds: Annotated[Seconds, Ge(0)] = _unused(
        "netDialTimeout", 15.0, "kafka-net-dial-timeout", _DIAL, unit="seconds"
    )
    net_keep_alive_interval_seconds: Annotated[Seconds, Ge(0)] = _unused(
        "netKeepAliveInterval", 90.0, "kafka-net-keep-alive-interval", _KEEP_ALIVE, unit="seconds"
    )
    termination_wait_time_seconds: Annotated[Seconds, Ge(0)] = _unused(
        "workerTerminationWaitTime", 30.0, "kafka-termination-wait-time", _TRIGGER_WAIT, unit="seconds"
    )

    # No advice names one of them: a near key is one that counts.
    ignored: ClassVar[Mapping[str, str]] = KeysLike(re.compile("|".join(_MLRUN_KEYS.split())), _MLRUN)

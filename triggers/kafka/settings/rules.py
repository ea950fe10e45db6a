"""Conditions between the Kafka trigger's settings, and between them and the trigger's own fields."""

import re
from collections.abc import Callable

from headrace.runtime.config.delivery_policy import MAX_EVENTS
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.kafka.access import OAUTHBEARER
from headrace.runtime.settings.checks import NOT_BUILT
from headrace.runtime.settings.declare import Rule
from headrace.runtime.settings.durations import format_duration
from headrace.runtime.streams.settings import ACK_RULES, HEARTBEAT_RULES, ON_FAILURE_RULES
from headrace.triggers.kafka.settings.access import ACCESS_RULES
from headrace.triggers.kafka.settings.attributes import KafkaAttributes


def _waits_seconds(settings: KafkaAttributes, trigger: TriggerFields) -> float:
    handlers = settings.max_wait_handler_during_rebalance_seconds
    # Rounded to the nanosecond, so that 5.1 stands against 5 + 0.1 as it is written.
    return round(handlers + trigger.wait_explicit_ack_during_rebalance_timeout_seconds, 9)


def _rebalance_above_waits(settings: KafkaAttributes, trigger: TriggerFields) -> str:
    """must be above maxWaitHandlerDuringRebalance plus waitExplicitAckDuringRebalanceTimeout."""
    waits = _waits_seconds(settings, trigger)
    if settings.group_protocol == "consumer" or settings.rebalance_timeout_seconds > waits:
        return ""
    return (
        f"{format_duration(settings.rebalance_timeout_seconds)} must be above"
        " maxWaitHandlerDuringRebalance plus waitExplicitAckDuringRebalanceTimeout,"
        f" {format_duration(waits)} together"
    )


def _rebalance_well_above_waits(settings: KafkaAttributes, trigger: TriggerFields) -> str:
    """less than 120 % of those waits is noticed."""
    waits = _waits_seconds(settings, trigger)
    rebalance, advised = settings.rebalance_timeout_seconds, round(waits * 1.2, 9)
    if settings.group_protocol == "consumer" or not waits < rebalance < advised:
        return ""
    return (
        f"{format_duration(rebalance)} leaves little time after the waits of"
        f" {format_duration(waits)}; {format_duration(advised)} or more is safe"
    )


def _spark_has_no_tokens(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """OAUTHBEARER is not built for delivery ranges, which Spark reads."""
    is_given = (
        settings.delivery == "ranges" and settings.sasl.enable and settings.sasl.mechanism == OAUTHBEARER
    )
    return f"with delivery: ranges {NOT_BUILT}; use SCRAM-SHA-512" if is_given else ""


def _spark_reads_pkcs8(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """with delivery ranges it must be in PKCS#8, which is all that Spark's Kafka client reads."""
    is_other = settings.access_key and "-----BEGIN PRIVATE KEY-----" not in settings.access_key
    return (
        "must be in PKCS#8 (BEGIN PRIVATE KEY) for Spark's Kafka client, which reads ranges:"
        " `openssl pkcs8 -topk8 -nocrypt` makes it so"
        if settings.delivery == "ranges" and is_other
        else ""
    )


def _spark_verifies(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """can't be true with delivery ranges: Spark's Kafka client always verifies."""
    skips = settings.uses_tls and settings.tls.insecure_skip_verify
    is_impossible = settings.delivery == "ranges" and skips
    return (
        "must be false: Spark's Kafka client, which reads ranges, verifies; set caCert"
        if is_impossible
        else ""
    )


def _ack_deadline_is_unused(settings: KafkaAttributes, trigger: TriggerFields) -> str:
    """is noticed while explicitAckMode is disable."""
    is_unused = settings.ack_deadline_seconds > 0 and trigger.explicit_ack_mode == "disable"
    return "has no effect while explicitAckMode is disable: returning acks" if is_unused else ""


def _ranges_need_batches(settings: KafkaAttributes, trigger: TriggerFields) -> str:
    """ranges needs batch mode, whose batchSize says how long a range gets."""
    is_missing = settings.delivery == "ranges" and trigger.batch.mode != "enable"
    return "ranges needs batch.mode enable: its batchSize says how long a range gets" if is_missing else ""


def _events_are_held(settings: KafkaAttributes, trigger: TriggerFields) -> str:
    """events holds a batch in memory: at most 100000 of them."""
    size = trigger.batch.batch_size
    if settings.delivery == "ranges" or trigger.batch.mode != "enable" or size <= MAX_EVENTS:
        return ""
    return f"events holds a batch in memory, {MAX_EVENTS} at most; batchSize is {size}, which takes ranges"


def _ranges_are_not_fetched(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """has no effect with delivery ranges, which fetches no record."""
    is_unused = settings.delivery == "ranges" and settings.fetch_max_bytes
    return "has no effect with delivery: ranges, which fetches no record" if is_unused else ""


def _ranges_have_no_results(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """is not built for delivery ranges."""
    is_given = settings.delivery == "ranges" and settings.result_topic
    return f"with delivery: ranges {NOT_BUILT}; remove it" if is_given else ""


def _acks_end_batches(settings: KafkaAttributes, trigger: TriggerFields) -> str:
    """with batches it needs explicitAckMode disable: a batch succeeds or fails as a whole."""
    if not settings.exactly_once or "disable" in {trigger.batch.mode, trigger.explicit_ack_mode}:
        return ""
    return "with batches needs explicitAckMode disable: a batch succeeds or fails as a whole"


def _window_repeats(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """must be 0 with exactlyOnce: what it holds back is handled again."""
    is_given = settings.exactly_once and settings.ack_window_size
    return "must be 0 with exactlyOnce: what it holds back is handled again" if is_given else ""


def _ranges_are_read_by_others(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """is not built for delivery ranges."""
    is_given = settings.exactly_once and settings.delivery == "ranges"
    return f"with delivery: ranges {NOT_BUILT}; remove it" if is_given else ""


def _has_topics(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """is required where there is no topicPattern."""
    is_missing = not (settings.topics or settings.topic_pattern)
    return "is required: a list of at least one topic, or topicPattern" if is_missing else ""


def _pattern_is_one(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """must be a regular expression."""
    try:
        re.compile(settings.topic_pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is no regular expression: {error}"
    return ""


def _results_feed_it(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """must not be one of the trigger's own topics."""
    if not settings.result_topic or not settings.reads(settings.result_topic):
        return ""
    return f"{settings.result_topic!r} is one of the trigger's own topics: it would feed itself"


def _in_flight_is_unused(settings: KafkaAttributes, trigger: TriggerFields) -> str:
    """has no effect below two batches, nor with delivery ranges, and is noticed."""
    if not settings.max_in_flight:
        return ""
    if settings.delivery == "ranges":
        return "has no effect with delivery: ranges, which fetches no record"
    least = 2 * trigger.batch.batch_size if trigger.batch.mode == "enable" else 0
    if settings.max_in_flight < least:
        return f"has no effect below two batches, {least}: one fills while another one is handled"
    return ""


def _ranges_have_no_window(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """is not built for delivery ranges."""
    is_given = settings.delivery == "ranges" and settings.ack_window_size
    return f"with delivery: ranges {NOT_BUILT}; remove it" if is_given else ""


def _trigger_sign_in(settings: KafkaAttributes, trigger: TriggerFields) -> str:  # noqa: ARG001
    """the trigger's own username, password and secret have no effect, and are noticed."""
    if not (trigger.username or trigger.password or trigger.secret):
        return ""
    return (
        "the trigger's username, password and secret have no effect with Kafka; use sasl.user and"
        " sasl.password"
    )


_REBALANCE = (
    "rebalance_timeout_seconds",
    "max_wait_handler_during_rebalance_seconds",
    "group_protocol",
    "trigger.wait_explicit_ack_during_rebalance_timeout_seconds",
)
RULES = (
    *HEARTBEAT_RULES,
    Rule("rebalance_timeout_seconds", _REBALANCE, _rebalance_above_waits),
    Rule("rebalance_timeout_seconds", _REBALANCE, _rebalance_well_above_waits, is_error=False),
    *ACCESS_RULES,
    *ACK_RULES,
    Rule("sasl.mechanism", ("delivery", "sasl.enable", "sasl.mechanism"), _spark_has_no_tokens),
    Rule("access_key", ("delivery", "access_key"), _spark_reads_pkcs8),
    Rule("tls.insecure_skip_verify", ("delivery", "tls.insecure_skip_verify", "ca_cert"), _spark_verifies),
    Rule(
        "ack_deadline_seconds",
        ("ack_deadline_seconds", "trigger.explicit_ack_mode"),
        _ack_deadline_is_unused,
        is_error=False,
    ),
    Rule("delivery", ("delivery", "trigger.batch.mode"), _ranges_need_batches),
    Rule("delivery", ("delivery", "trigger.batch.mode", "trigger.batch.batch_size"), _events_are_held),
    Rule("fetch_max_bytes", ("delivery", "fetch_max_bytes"), _ranges_are_not_fetched),
    Rule("topics", ("topics", "topic_pattern"), _has_topics),
    Rule("topic_pattern", ("topic_pattern",), _pattern_is_one),
    Rule("result_topic", ("result_topic", "topics", "topic_pattern"), _results_feed_it),
    Rule("result_topic", ("delivery", "result_topic"), _ranges_have_no_results),
    Rule("ack_window_size", ("ack_window_size", "exactly_once"), _window_repeats),
    Rule("exactly_once", ("exactly_once", "delivery"), _ranges_are_read_by_others),
    Rule(
        "exactly_once", ("exactly_once", "trigger.batch.mode", "trigger.explicit_ack_mode"), _acks_end_batches
    ),
    Rule(
        "max_in_flight",
        ("delivery", "max_in_flight", "trigger.batch.mode", "trigger.batch.batch_size"),
        _in_flight_is_unused,
        is_error=False,
    ),
    Rule("ack_window_size", ("delivery", "ack_window_size"), _ranges_have_no_window),
    Rule("sasl.user", (), _trigger_sign_in, is_error=False),
)


def _topic_feeds_itself(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """must not be one of the trigger's own topics."""
    topic = settings.on_failure.dead_letter_topic
    if not topic or not settings.reads(topic):
        return ""
    return f"{topic!r} is one of the trigger's own topics: it would feed itself; name another topic"


FAILURE_RULES = (
    *ON_FAILURE_RULES,
    Rule(
        "on_failure.dead_letter_topic",
        ("on_failure.dead_letter_topic", "topics", "topic_pattern"),
        _topic_feeds_itself,
    ),
)
_Check = Callable[[KafkaAttributes, TriggerFields], str]


def _decided(settings: KafkaAttributes, name: str, by: str) -> str:
    is_given = settings.group_protocol == "consumer" and name in settings.model_fields_set
    return f"with groupProtocol: consumer the broker decides, by {by}; remove it" if is_given else ""


def _session_is_the_brokers(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """with groupProtocol consumer the broker decides; it must not be given."""
    return _decided(settings, "session_timeout_seconds", "group.consumer.session.timeout.ms")


def _heartbeats_are_the_brokers(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """with groupProtocol consumer the broker decides; it must not be given."""
    return _decided(settings, "heartbeat_interval_seconds", "group.consumer.heartbeat.interval.ms")


def _strategy_is_the_brokers(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """with groupProtocol consumer the broker decides; it must not be given."""
    return _decided(settings, "balance_strategy", "groupRemoteAssignor")


def _assignor_needs_consumer(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """range needs groupProtocol consumer."""
    if settings.group_protocol == "consumer" or settings.group_remote_assignor == "uniform":
        return ""
    return "needs groupProtocol: consumer; with classic the members decide, by balanceStrategy"


def _transactions_are_classic(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """is not built for groupProtocol consumer."""
    is_given = settings.group_protocol == "consumer" and settings.exactly_once
    return f"with groupProtocol: consumer {NOT_BUILT}; remove one of them" if is_given else ""


def _instances_are_not_classic(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """needs groupProtocol consumer."""
    if settings.group_protocol == "consumer" or not settings.group_instance_id:
        return ""
    if settings.exactly_once:
        return "is not for exactlyOnce, which needs groupProtocol: classic; remove it"
    return (
        "needs groupProtocol: consumer (Kafka 4.0 or newer); with classic the broker hands on a replica's"
        " partitions while its handlers still run. With an older Kafka, remove it"
    )


def _rule(about: str, check: _Check) -> Rule:
    return Rule(about, ("group_protocol", about), check)


GROUP_RULES = (
    _rule("session_timeout_seconds", _session_is_the_brokers),
    _rule("heartbeat_interval_seconds", _heartbeats_are_the_brokers),
    _rule("balance_strategy", _strategy_is_the_brokers),
    _rule("group_remote_assignor", _assignor_needs_consumer),
    _rule("exactly_once", _transactions_are_classic),
    _rule("group_instance_id", _instances_are_not_classic),
)


def _order_needs_pool(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """key and none need workerAllocationMode pool."""
    if settings.ordering == "partition" or settings.worker_allocation_mode == "pool":
        return ""
    return (
        f"{settings.ordering} needs workerAllocationMode pool: static keeps a partition at one worker, and"
        " its records could not run beside each other"
    )


def _order_needs_single_records(settings: KafkaAttributes, trigger: TriggerFields) -> str:
    """key and none don't go with batches."""
    if settings.ordering == "partition" or trigger.batch.mode != "enable":
        return ""
    return (
        f"{settings.ordering} can't be with batches: a batch succeeds or fails as a whole, so the records of"
        " a key in it would have no order; remove batch, or the ordering"
    )


def _order_needs_implicit_acks(settings: KafkaAttributes, trigger: TriggerFields) -> str:
    """key and none are not built for explicit acks."""
    if settings.ordering == "partition" or trigger.explicit_ack_mode == "disable":
        return ""
    return f"{settings.ordering} with explicitAckMode {trigger.explicit_ack_mode} {NOT_BUILT}"


def _order_has_no_window(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """is not built for ordering key and none."""
    is_given = settings.ordering != "partition" and settings.ack_window_size
    return f"with ordering: {settings.ordering} {NOT_BUILT}; remove it" if is_given else ""


ORDER_RULES = (
    Rule("ordering", ("ordering", "worker_allocation_mode"), _order_needs_pool),
    Rule("ordering", ("ordering", "trigger.batch.mode"), _order_needs_single_records),
    Rule("ordering", ("ordering", "trigger.explicit_ack_mode"), _order_needs_implicit_acks),
    Rule("ack_window_size", ("ordering", "ack_window_size"), _order_has_no_window),
)

"""Conditions of `groupProtocol`: what the broker decides with `consumer`, and what isn't built for it."""

from collections.abc import Callable

from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.settings.checks import NOT_BUILT
from headrace.runtime.settings.declare import Rule
from headrace.triggers.kafka.settings.attributes import KafkaAttributes

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
    """It is not built for groupProtocol consumer."""
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

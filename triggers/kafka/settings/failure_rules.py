"""Conditions of `onFailure` that are Kafka's own."""

from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.settings.declare import Rule
from headrace.runtime.streams.settings import ON_FAILURE_RULES
from headrace.triggers.kafka.settings.attributes import KafkaAttributes


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

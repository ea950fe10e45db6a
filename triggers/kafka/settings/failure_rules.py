"""Conditions of `onFailure` between its settings, and between them and the trigger's others."""

from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.settings.declare import Rule
from headrace.runtime.settings.durations import format_duration
from headrace.triggers.kafka.settings.attributes import KafkaAttributes


def _max_below_backoff(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """must not be below backoff."""
    backoff, most = settings.on_failure.backoff_seconds, settings.on_failure.max_backoff_seconds
    is_below = most < backoff
    return (
        f"{format_duration(most)} must not be below backoff, {format_duration(backoff)}" if is_below else ""
    )


def _dead_letter_needs_topic(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """is required where then is deadLetter."""
    is_missing = settings.on_failure.then == "deadLetter" and not settings.on_failure.dead_letter_topic
    return "is required: then is deadLetter, and failed records need a topic to go to" if is_missing else ""


def _topic_is_unused(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """is noticed where then is not deadLetter."""
    then = settings.on_failure.then
    is_unused = bool(settings.on_failure.dead_letter_topic) and then != "deadLetter"
    return f"gets nothing while then is {then}; deadLetter would use it" if is_unused else ""


def _topic_feeds_itself(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """must not be one of the trigger's own topics."""
    topic = settings.on_failure.dead_letter_topic
    if not topic or not settings.reads(topic):
        return ""
    return f"{topic!r} is one of the trigger's own topics: it would feed itself; name another topic"


def _batch_is_never_halved(settings: KafkaAttributes, trigger: TriggerFields) -> str:
    """0 is noticed where batches are on."""
    if settings.on_failure.max_attempts or trigger.batch.mode == "disable":
        return ""
    return "0 never singles out the bad record of a batch: the whole batch repeats for ever"


_THEN = ("on_failure.then", "on_failure.dead_letter_topic")

FAILURE_RULES = (
    Rule(
        "on_failure.max_backoff_seconds",
        ("on_failure.backoff_seconds", "on_failure.max_backoff_seconds"),
        _max_below_backoff,
    ),
    Rule("on_failure.dead_letter_topic", _THEN, _dead_letter_needs_topic),
    Rule("on_failure.dead_letter_topic", _THEN, _topic_is_unused, is_error=False),
    Rule(
        "on_failure.dead_letter_topic",
        ("on_failure.dead_letter_topic", "topics", "topic_pattern"),
        _topic_feeds_itself,
    ),
    Rule(
        "on_failure.max_attempts",
        ("on_failure.max_attempts", "trigger.batch.mode"),
        _batch_is_never_halved,
        is_error=False,
    ),
)

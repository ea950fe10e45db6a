"""`onFailure` of a Kafka trigger: what is to happen to a record whose handler failed."""

import re
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge
from pydantic import AfterValidator

from headrace.runtime.durations import format_duration
from headrace.runtime.failure_policy import FailurePolicy, Then
from headrace.runtime.settings import Rule, Settings, setting
from headrace.runtime.shapes import CHOICE, Count, Seconds, Text
from headrace.runtime.trigger_fields import TriggerFields

if TYPE_CHECKING:
    from headrace.triggers.kafka_settings import KafkaSettings

_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")  # Kafka's own rule


def _checked_topic(name: str) -> str:
    # A name that Kafka refuses would show only when the first record has failed for good.
    if name and not _TOPIC.fullmatch(name):
        raise ValueError("is no topic name; expected up to 249 of letters, digits, dots, _ and -")
    return name


class FailureSettings(Settings):
    """`onFailure`."""

    max_attempts: Annotated[Count, Ge(0)] = setting(
        "maxAttempts",
        4,
        unit="deliveries",
        effect="Too low gives up on records that only met a hiccup; 0 tries for ever, and one bad record"
        " then holds up its partition.",
    )
    backoff_seconds: Annotated[Seconds, Ge(0)] = setting(
        "backoff",
        1.0,
        unit="seconds",
        effect="Too low spends all attempts during one outage, too high makes a partition wait; it doubles"
        " with each attempt.",
    )
    max_backoff_seconds: Annotated[Seconds, Ge(0)] = setting(
        "maxBackoff",
        30.0,
        unit="seconds",
        effect="Too low hammers a service that is down, too high notices late that it is back.",
    )
    then: Annotated[Then, CHOICE] = setting(
        "then",
        "halt",
        effect="halt stops the partition until somebody looks, skip loses the record, deadLetter moves it to"
        " deadLetterTopic.",
    )
    dead_letter_topic: Annotated[Text, AfterValidator(_checked_topic)] = setting(
        "deadLetterTopic",
        "",
        effect="Gets failed records when then is deadLetter; while it can't be written, their partitions"
        " wait.",
    )

    @property
    def policy(self) -> FailurePolicy:
        """What the runtime goes by."""
        return FailurePolicy(
            max_attempts=self.max_attempts,
            backoff_seconds=self.backoff_seconds,
            max_backoff_seconds=self.max_backoff_seconds,
            then=self.then,
            dead_letter_topic=self.dead_letter_topic,
        )


def _max_below_backoff(settings: "KafkaSettings", _trigger: TriggerFields) -> str:
    """must not be below backoff."""
    backoff, most = settings.on_failure.backoff_seconds, settings.on_failure.max_backoff_seconds
    is_below = most < backoff
    return (
        f"{format_duration(most)} must not be below backoff, {format_duration(backoff)}" if is_below else ""
    )


def _dead_letter_needs_topic(settings: "KafkaSettings", _trigger: TriggerFields) -> str:
    """is required where then is deadLetter."""
    is_missing = settings.on_failure.then == "deadLetter" and not settings.on_failure.dead_letter_topic
    return "is required: then is deadLetter, and failed records need a topic to go to" if is_missing else ""


def _topic_is_unused(settings: "KafkaSettings", _trigger: TriggerFields) -> str:
    """is noticed where then is not deadLetter."""
    then = settings.on_failure.then
    is_unused = bool(settings.on_failure.dead_letter_topic) and then != "deadLetter"
    return f"gets nothing while then is {then}; deadLetter would use it" if is_unused else ""


def _topic_feeds_itself(settings: "KafkaSettings", _trigger: TriggerFields) -> str:
    """must not be one of the trigger's own topics."""
    topic = settings.on_failure.dead_letter_topic
    if topic not in settings.topics:
        return ""
    return f"{topic!r} is one of the trigger's own topics: it would feed itself; name another topic"


def _batch_is_never_halved(settings: "KafkaSettings", trigger: TriggerFields) -> str:
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
    Rule("on_failure.dead_letter_topic", ("on_failure.dead_letter_topic", "topics"), _topic_feeds_itself),
    Rule(
        "on_failure.max_attempts",
        ("on_failure.max_attempts", "trigger.batch.mode"),
        _batch_is_never_halved,
        is_error=False,
    ),
)

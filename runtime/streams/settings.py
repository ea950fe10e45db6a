"""Conditions between settings that have the same names in streams of every kind."""

from typing import Annotated, Any, Literal

from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.settings.declare import Rule, setting
from headrace.runtime.settings.durations import format_duration
from headrace.runtime.settings.types import CHOICE


def _heartbeat_below_session(settings: Any, _trigger: TriggerFields) -> str:
    """must be below sessionTimeout."""
    if settings.heartbeat_interval_seconds < settings.session_timeout_seconds:
        return ""
    return (
        f"{format_duration(settings.heartbeat_interval_seconds)} must be below sessionTimeout,"
        f" {format_duration(settings.session_timeout_seconds)}"
    )


def _heartbeat_at_most_a_third(settings: Any, _trigger: TriggerFields) -> str:
    """more than a third of sessionTimeout is noticed."""
    beat, session = settings.heartbeat_interval_seconds, settings.session_timeout_seconds
    if beat >= session or round(beat * 3, 9) <= session:
        return ""
    return (
        f"{format_duration(beat)} is above a third of sessionTimeout, {format_duration(session)}:"
        " one or two lost heartbeats end the session"
    )


def _explicit_ack_needs_static(settings: Any, trigger: TriggerFields) -> str:
    """must be static with explicitAckMode enable or explicitOnly and more than one worker."""
    is_pool = settings.worker_allocation_mode != "static" and trigger.worker_count > 1
    is_pool = is_pool and trigger.explicit_ack_mode != "disable"
    return f"must be static with explicitAckMode {trigger.explicit_ack_mode}" if is_pool else ""


def _ack_semantics_are_unused(settings: Any, trigger: TriggerFields) -> str:
    """is noticed while explicitAckMode is disable."""
    if trigger.explicit_ack_mode != "disable" or "explicit_ack_semantics" not in settings.model_fields_set:
        return ""
    # Nobody who spells out both defaults expects an effect.
    is_spelled_out = "explicit_ack_mode" in trigger.model_fields_set
    if is_spelled_out and settings.explicit_ack_semantics == "auto":
        return ""
    return "has no effect while explicitAckMode is disable"


def _max_below_backoff(settings: Any, _trigger: TriggerFields) -> str:
    """must not be below backoff."""
    backoff, most = settings.on_failure.backoff_seconds, settings.on_failure.max_backoff_seconds
    is_below = most < backoff
    return (
        f"{format_duration(most)} must not be below backoff, {format_duration(backoff)}" if is_below else ""
    )


def _dead_letter_needs_topic(settings: Any, _trigger: TriggerFields) -> str:
    """is required where then is deadLetter."""
    is_missing = settings.on_failure.then == "deadLetter" and not settings.on_failure.dead_letter_topic
    return "is required: then is deadLetter, and failed records need a topic to go to" if is_missing else ""


def _topic_is_unused(settings: Any, _trigger: TriggerFields) -> str:
    """is noticed where then is not deadLetter."""
    then = settings.on_failure.then
    is_unused = bool(settings.on_failure.dead_letter_topic) and then != "deadLetter"
    return f"gets nothing while then is {then}; deadLetter would use it" if is_unused else ""


def _batch_is_never_halved(settings: Any, trigger: TriggerFields) -> str:
    """0 is noticed where batches are on."""
    if settings.on_failure.max_attempts or trigger.batch.mode == "disable":
        return ""
    return "0 never singles out the bad record of a batch: the whole batch repeats for ever"


_HEARTBEAT = ("heartbeat_interval_seconds", "session_timeout_seconds")


_THEN = ("on_failure.then", "on_failure.dead_letter_topic")


HEARTBEAT_RULES = (
    Rule("heartbeat_interval_seconds", _HEARTBEAT, _heartbeat_below_session),
    Rule("heartbeat_interval_seconds", _HEARTBEAT, _heartbeat_at_most_a_third, is_error=False),
)


ACK_RULES = (
    Rule(
        "worker_allocation_mode",
        ("worker_allocation_mode", "trigger.explicit_ack_mode", "trigger.num_workers", "trigger.max_workers"),
        _explicit_ack_needs_static,
    ),
    Rule(
        "explicit_ack_semantics",
        ("explicit_ack_semantics", "trigger.explicit_ack_mode"),
        _ack_semantics_are_unused,
        is_error=False,
    ),
)


ON_FAILURE_RULES = (
    Rule(
        "on_failure.max_backoff_seconds",
        ("on_failure.backoff_seconds", "on_failure.max_backoff_seconds"),
        _max_below_backoff,
    ),
    Rule("on_failure.dead_letter_topic", _THEN, _dead_letter_needs_topic),
    Rule("on_failure.dead_letter_topic", _THEN, _topic_is_unused, is_error=False),
    Rule(
        "on_failure.max_attempts",
        ("on_failure.max_attempts", "trigger.batch.mode"),
        _batch_is_never_halved,
        is_error=False,
    ),
)


AllocationMode = Annotated[Literal["pool", "static"], CHOICE]


AckSemantics = Annotated[Literal["auto", "individual", "cumulative"], CHOICE]


def explicit_ack_semantics() -> Any:
    """The setting."""
    return setting(
        "explicitAckSemantics",
        "auto",
        effect="cumulative settles every lower record too, finished or not, but for those that have failed"
        " and are to be tried again; with individual lower ones that nobody acks stay open. auto is"
        " cumulative for functions that mlrun has written, else individual.",
    )

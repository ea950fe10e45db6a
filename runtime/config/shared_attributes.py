"""Attributes that several kinds of triggers have: `onFailure` and `maxConcurrency`."""

from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import AfterValidator

from headrace.runtime.config.delivery_policy import FailurePolicy, Then
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.kafka.names import TOPIC_NAME
from headrace.runtime.settings.checks import NOT_BUILT
from headrace.runtime.settings.declare import Rule, Settings, setting
from headrace.runtime.settings.types import CHOICE, Count, Seconds, Text

FAILED = (
    "What happens to a record whose handler raised, answered with a status of 500 or above, ran past"
    " eventTimeout, or died with its worker."
)
"""Effect of the section `onFailure`, in the words of the reference."""


def _checked_topic(name: str) -> str:
    # A name that Kafka refuses would show only when the first record has failed for good.
    if name and not TOPIC_NAME.fullmatch(name):
        raise ValueError("is no topic name; expected up to 249 of letters, digits, dots, _ and -")
    return name


class OnFailureSettings(Settings):
    """Settings of `onFailure`: what is to happen to a record whose handler failed."""

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
        """The policy that the dispatcher goes by."""
        return FailurePolicy(
            max_attempts=self.max_attempts,
            backoff_seconds=self.backoff_seconds,
            max_backoff_seconds=self.max_backoff_seconds,
            then=self.then,
            dead_letter_topic=self.dead_letter_topic,
        )


# A worker's shared memory has places for as many records that run at once (wire/progress_slot.py).
MaxConcurrency = Annotated[Count, Ge(1), Le(1000)]


def max_concurrency() -> Any:
    """Declare `maxConcurrency`, for kinds of triggers whose events may overlap in a worker."""
    return setting(
        "maxConcurrency",
        1,
        effect="How many events of a worker an async handler is in at once. Too high runs more of them than"
        " the handler, or what it calls, is made for; a worker that dies repeats as many. It has no effect on"
        " handlers that aren't async.",
    )


def _not_with_batches(settings: Any, trigger: TriggerFields) -> str:
    """is not built for batches."""
    # A handler gets its batch at once, and may go through it concurrently itself.
    is_given = settings.max_concurrency > 1 and trigger.batch.mode == "enable"
    return (
        f"above 1 with batches {NOT_BUILT}; a handler may go through its batch at once itself"
        if is_given
        else ""
    )


def _not_with_shared_workers(settings: Any, trigger: TriggerFields) -> str:
    """is not built for triggers that share their workers."""
    is_given = settings.max_concurrency > 1 and trigger.worker_allocator_name
    return f"above 1 with workerAllocatorName {NOT_BUILT}; remove one of the two" if is_given else ""


CONCURRENCY_RULES = (
    Rule("max_concurrency", ("max_concurrency", "trigger.batch.mode"), _not_with_batches),
    Rule("max_concurrency", ("max_concurrency", "trigger.worker_allocator_name"), _not_with_shared_workers),
)

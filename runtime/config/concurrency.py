"""`maxConcurrency`: for kinds of triggers whose events may overlap in a worker."""

from typing import Annotated, Any, Protocol

from annotated_types import Ge, Le

from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.settings.checks import NOT_BUILT
from headrace.runtime.settings.declare import Rule, setting
from headrace.runtime.settings.types import Count

MaxConcurrency = Annotated[Count, Ge(1), Le(1000)]


class Concurrent(Protocol):
    """Settings of such a kind."""

    max_concurrency: int


def max_concurrency() -> Any:
    """The setting."""
    return setting(
        "maxConcurrency",
        1,
        effect="How many events of a worker an async handler is in at once. Too high runs more of them than"
        " the handler, or what it calls, is made for; a worker that dies repeats as many. It has no effect on"
        " handlers that aren't async.",
    )


def _not_with_batches(settings: Concurrent, trigger: TriggerFields) -> str:
    """is not built for batches."""
    is_given = settings.max_concurrency > 1 and trigger.batch.mode == "enable"
    return (
        f"above 1 with batches {NOT_BUILT}; a handler may go through its batch at once itself"
        if is_given
        else ""
    )


def _not_with_shared_workers(settings: Concurrent, trigger: TriggerFields) -> str:
    """is not built for triggers that share their workers."""
    is_given = settings.max_concurrency > 1 and trigger.worker_allocator_name
    return f"above 1 with workerAllocatorName {NOT_BUILT}; remove one of the two" if is_given else ""


CONCURRENCY_RULES = (
    Rule("max_concurrency", ("max_concurrency", "trigger.batch.mode"), _not_with_batches),
    Rule("max_concurrency", ("max_concurrency", "trigger.worker_allocator_name"), _not_with_shared_workers),
)

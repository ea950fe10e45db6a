"""Conditions of `ordering`: what can't be where records of a partition may overtake each other."""

from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.settings.checks import NOT_BUILT
from headrace.runtime.settings.declare import Rule
from headrace.triggers.kafka.settings.attributes import KafkaAttributes


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
    """It is not built for ordering key and none."""
    is_given = settings.ordering != "partition" and settings.ack_window_size
    return f"with ordering: {settings.ordering} {NOT_BUILT}; remove it" if is_given else ""


ORDER_RULES = (
    Rule("ordering", ("ordering", "worker_allocation_mode"), _order_needs_pool),
    Rule("ordering", ("ordering", "trigger.batch.mode"), _order_needs_single_records),
    Rule("ordering", ("ordering", "trigger.explicit_ack_mode"), _order_needs_implicit_acks),
    Rule("ack_window_size", ("ordering", "ack_window_size"), _order_has_no_window),
)

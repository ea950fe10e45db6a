"""Fields that every trigger has, whatever its kind: what stands beside `attributes`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from headrace.runtime.config.delivery_policy import AckMode, BatchPolicy, DeliveryPolicy
from headrace.runtime.settings.checks import NOT_BUILT
from headrace.runtime.settings.declare import Rule, Settings, section, setting
from headrace.runtime.settings.types import (
    CHOICE,
    Anything,
    Count,
    Flag,
    Seconds,
    Text,
    spelled,
)

MAX_WORKERS = 100_000
MAX_BATCH_SIZE = 100_000_000  # offsets; of events the kind allows fewer
NO_STREAMS = ("http", "cron")
_LEGACY = "a field of other trigger kinds or of older Nuclio versions"

ExplicitAckMode = Annotated[
    Literal["disable", "enable", "explicitOnly"],
    spelled({"enabled": "enable", "disabled": "disable", "explicitonly": "explicitOnly"}),
    CHOICE,
]
BatchMode = Annotated[Literal["disable", "enable"], CHOICE]


class BatchFields(Settings):
    """`batch`: hand several events to one call of the handler."""

    mode: BatchMode = setting(
        "mode",
        "disable",
        effect="With enable the handler gets a list of events and must expect more than one.",
    )
    batch_size: Annotated[Count, Gt(0), Le(MAX_BATCH_SIZE)] = setting(
        "batchSize",
        10,
        effect="Too low gives up what batching saves; too high repeats more after a failure.",
    )
    timeout_seconds: Annotated[Seconds, Gt(0)] = setting(
        "timeout",
        1.0,
        unit="seconds",
        effect="Too low sends batches half empty; too high makes the first event of one wait.",
    )


def _batch_is_off(fields: "TriggerFields", _trigger: object) -> str:
    """disable with a batchSize or a timeout of its own is noticed."""
    batch = fields.batch
    # Where the defaults are spelled out, mode: disable among them, nobody expects batches.
    is_spelled_out = "mode" in batch.model_fields_set and batch == BatchFields()
    unused = [key for name, key in _BATCH_KEYS.items() if name in batch.model_fields_set]
    if batch.mode == "enable" or is_spelled_out or not unused:
        return ""
    have = "has" if len(unused) == 1 else "have"
    return f"is disable, so {' and '.join(unused)} {have} no effect; write mode: enable for batches"


def _batches_are_of_streams(fields: "TriggerFields", _trigger: object) -> str:
    """must not be enable in an http or cron trigger."""
    is_meant = fields.batch.mode == "enable" and fields.kind in NO_STREAMS
    return f"enable {NOT_BUILT} for {fields.kind}; remove it" if is_meant else ""


def _acks_are_of_streams(fields: "TriggerFields", _trigger: object) -> str:
    """enable and explicitOnly are noticed in an http or cron trigger."""
    is_meant = fields.explicit_ack_mode != "disable" and fields.kind in NO_STREAMS
    return "has no effect here: only records of streams are acked" if is_meant else ""


def _only_requests_give_up(fields: "TriggerFields", _trigger: object) -> str:
    """is noticed in a trigger of another kind than http."""
    is_given = "worker_availability_timeout_milliseconds" in fields.model_fields_set
    return "has no effect here: only requests give up waiting" if is_given and fields.kind != "http" else ""


_WAIT = "worker_availability_timeout_milliseconds"
_BATCH_KEYS = {"batch_size": "batchSize", "timeout_seconds": "timeout"}
_BATCH_READS = ("batch.mode", "batch.batch_size", "batch.timeout_seconds")


class TriggerFields(Settings):
    """Fields of an entry of `spec.triggers`. `attributes` is left to the kind's own Settings."""

    kind: Text = setting("kind", required="say what the events come from", effect="The source.")
    name: Text = setting(
        "name", "", in_examples=False, effect="Must equal the trigger's key; Nuclio writes it out."
    )
    disabled: Flag = setting("disabled", False, effect="true leaves the trigger out.")
    attributes: Anything = setting("attributes", {}, effect="The settings of the kind.")
    num_workers: Annotated[Count, Ge(0), Le(MAX_WORKERS)] = setting(
        "numWorkers",
        1,
        effect="Too low leaves partitions waiting for a worker; too high costs memory for each.",
    )
    max_workers: Annotated[Count, Ge(0), Le(MAX_WORKERS)] = setting(
        "maxWorkers",
        0,
        absent="numWorkers counts",
        in_examples=False,
        effect="The old spelling of numWorkers; counts where that is missing or 0.",
    )
    worker_allocator_name: Text = setting(
        "workerAllocatorName",
        "",
        in_examples=False,
        effect="Triggers that give the same name share their workers: one stream, and any of kind http and"
        " cron. One waits for the other then.",
    )
    worker_termination_timeout_seconds: Annotated[Seconds, Ge(0)] = setting(
        "workerTerminationTimeout",
        10.0,
        unit="seconds",
        effect="Too low kills handlers that a stop interrupts, too high makes a stop slow.",
    )
    explicit_ack_mode: ExplicitAckMode = setting(
        "explicitAckMode",
        "disable",
        effect="disable: a handler's return acknowledges its record; enable: explicit_ack and returning do,"
        " and a response may say no-ack; explicitOnly: nothing else than explicit_ack does, and a handler"
        " that never acks makes its partition repeat everything.",
    )
    wait_explicit_ack_during_rebalance_timeout_seconds: Annotated[Seconds, Ge(0)] = setting(
        "waitExplicitAckDuringRebalanceTimeout",
        0.1,
        annotation="wait-explicit-ack-during-rebalance-timeout",
        unit="seconds",
        effect="Too low redelivers what is acked late, too high lengthens every rebalance.",
    )
    worker_availability_timeout_milliseconds: Count = setting(
        "workerAvailabilityTimeoutMilliseconds",
        10_000,
        unit="milliseconds",
        in_examples=False,
        effect="Too low refuses requests that a worker was about to take, too high has clients wait in vain"
        " (http only). 0: a request is refused unless a worker is free.",
    )
    batch: BatchFields = section("batch", BatchFields, effect="Several events in one call.")
    url: Text = setting(
        "url", "", in_examples=False, effect="Where the source is; attributes may say it better."
    )
    username: Text = setting(
        "username", "", in_examples=False, effect="Who signs in, for kinds that ask here."
    )
    password: Text = setting(
        "password", "", secret=True, in_examples=False, effect="The password of username."
    )
    secret: Text = setting(
        "secret", "", secret=True, in_examples=False, effect="A token, for kinds that take one."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("batch.mode", _BATCH_READS, _batch_is_off, is_error=False),
        Rule("batch.mode", ("batch.mode", "kind"), _batches_are_of_streams),
        Rule("explicit_ack_mode", ("explicit_ack_mode", "kind"), _acks_are_of_streams, is_error=False),
        Rule(_WAIT, (_WAIT, "kind"), _only_requests_give_up, is_error=False),
    )
    ignored: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            *("class", "paths", "annotations", "partitions", "numPartitions", "user"),
            *("total_tasks", "totalTasks", "max_task_allocation", "maxTaskAllocation"),
        ),
        _LEGACY,
    )

    @property
    def delivery(self) -> DeliveryPolicy:
        """Return the policy that these fields make, whatever the kind."""
        ack_mode, batch = AckMode(self.explicit_ack_mode), self.batch
        late_acks = self.wait_explicit_ack_during_rebalance_timeout_seconds
        # A wait for late acks makes sense only where handlers ack by themselves.
        return DeliveryPolicy(
            ack_mode=ack_mode,
            late_ack_seconds=late_acks if ack_mode.is_explicit else 0.0,
            batch=BatchPolicy(batch.batch_size, batch.timeout_seconds) if batch.mode == "enable" else None,
        )

    @property
    def worker_count(self) -> int:
        """numWorkers, or maxWorkers where that is missing or 0, or 1: the order of Nuclio."""
        is_given = "num_workers" in self.model_fields_set and self.num_workers > 0
        return self.num_workers if is_given else (self.max_workers or 1)


def sharing_fault(other: str, other_fields: TriggerFields, own: TriggerFields) -> str:
    """Why a trigger can't share workers with another one, which is called `other`; empty where it can."""
    both = (other_fields, own)
    if not {fields.kind for fields in both} & {*NO_STREAMS}:
        return f"sharing workers with trigger {other!r}, another stream, {NOT_BUILT}; remove it"
    if any(fields.batch.mode == "enable" for fields in both):
        return f"sharing workers with trigger {other!r}, where one has batches, {NOT_BUILT}; remove it"
    if other_fields.worker_count != own.worker_count:
        counts = f"{own.worker_count} here, {other_fields.worker_count} there"
        return f"is that of {other!r}, so numWorkers must be the same: {counts}"
    # The workers are stopped once, for all that share them.
    if other_fields.worker_termination_timeout_seconds != own.worker_termination_timeout_seconds:
        return f"is that of {other!r}, so workerTerminationTimeout must be the same"
    return ""

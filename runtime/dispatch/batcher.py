"""The choice of the records that make a worker's next batch. Pure. docs/design/delivery.md."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.runtime.config.delivery_policy import BatchPolicy
from headrace.runtime.partitions.offsets.checkpoint import PlannedBatches
from headrace.runtime.partitions.partition import AssignedPartition


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The first `count` waiting records of a partition. `is_fixed`: they have to be a batch by themselves."""

    partition: AssignedPartition
    count: int
    is_fixed: bool = False

    @property
    def plan(self) -> PlannedBatches:
        """The offsets that the part spans."""
        return PlannedBatches(*self.partition.lane.buffer.span_of_first(self.count))


@dataclass(frozen=True, slots=True)
class BatchChoice:
    """The parts to hand out now; if none, in how many seconds to look again (None: once records come)."""

    parts: Sequence[BatchPart] = ()
    look_again_seconds: float | None = None


def choose_batch(
    ready: Iterable[AssignedPartition], policy: BatchPolicy, now: float, *, is_of_one_partition: bool = False
) -> BatchChoice:
    """Choose from partitions with waiting records, in their order: first who has waited longest for a worker.

    A full batch goes at once, another one when the first of its records has waited for the policy's time.
    Fixed parts go before their time, and alone: records that have been a batch before, and must be the same
    batch again, and records that failed, which may go in small batches only. `now` is by time.monotonic.
    """
    if is_of_one_partition:
        return _first_due(_choose([partition], policy, now) for partition in ready)
    return _choose(ready, policy, now)


def _choose(ready: Iterable[AssignedPartition], policy: BatchPolicy, now: float) -> BatchChoice:
    parts: list[BatchPart] = []
    missing, wait = policy.size, policy.timeout_seconds
    for partition in ready:
        part = next_part(partition, missing)
        if part is None:
            continue
        if part.is_fixed:
            return BatchChoice([part])
        parts.append(part)
        missing -= part.count
        if not missing:
            return BatchChoice(parts)
        waited = now - partition.lane.waiting_since
        # A part that isn't full would wait for its time in vain if no more records can come to it.
        wait = min(wait, policy.timeout_seconds - waited if partition.may_grow else 0)
    if not parts:
        return BatchChoice()
    return BatchChoice(parts) if wait <= 0 else BatchChoice(look_again_seconds=wait)


def _first_due(choices: Iterable[BatchChoice]) -> BatchChoice:
    """Return the first choice that has parts to hand out; if none has, when to look again at the earliest."""
    waits: list[float] = []
    for choice in choices:
        if choice.parts:
            return choice
        if choice.look_again_seconds is not None:
            waits.append(choice.look_again_seconds)
    return BatchChoice(look_again_seconds=min(waits, default=None))


def next_part(partition: AssignedPartition, size: int) -> BatchPart | None:
    """Return as much of a partition as may go together now; None if its plan isn't fetched as a whole."""
    plan, buffer = partition.plan.planned, partition.lane.buffer
    first = buffer.next_offset
    assert first is not None, "something waits"
    if (batch := partition.plan.of(first)) is not None:
        if partition.missing_of_plan:
            return None
        return BatchPart(partition, buffer.count_below(batch.end), is_fixed=True)
    if plan is not None and (above := plan.above(first)) is not None:
        # The records above were planned, and must come again as they were: none goes with those below.
        size = min(size, buffer.count_below(above.first))
    return BatchPart(partition, *buffer.count_together(size, partition.failed))

"""Which records make the next batch for a worker. Chooses only. docs/design/delivery.md."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.runtime.config.delivery_policy import BatchPolicy
from headrace.runtime.partitions.flow_control import missing_of_plan
from headrace.runtime.partitions.offsets.checkpoint import PlannedBatches
from headrace.runtime.partitions.partition import AssignedPartition


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The first `count` waiting records of a partition. `is_fixed`: these, and no others with them."""

    partition: AssignedPartition
    count: int
    is_fixed: bool = False

    @property
    def plan(self) -> PlannedBatches:
        """The offsets that it spans."""
        return PlannedBatches(*self.partition.lane.buffer.span_of_first(self.count))


@dataclass(frozen=True, slots=True)
class BatchChoice:
    """What to hand out now; if nothing, in how many seconds to look again (None: once records come)."""

    parts: Sequence[BatchPart] = ()
    look_again_seconds: float | None = None


class Batcher:
    """Full batches at once, others when the first of their records has waited for the policy's time."""

    def __init__(self, policy: BatchPolicy, *, is_of_one_partition: bool = False) -> None:
        self._policy = policy
        self._is_of_one_partition = is_of_one_partition

    def choose(self, ready: Iterable[AssignedPartition], now: float) -> BatchChoice:
        """From partitions with waiting records, those first that have waited longest for a worker.

        Fixed parts go before their time, and alone: those that have been a batch before and must be the same
        one again, and records that failed, which may go in small batches only.
        """
        if self._is_of_one_partition:
            return _first(self._choose([partition], now) for partition in ready)
        return self._choose(ready, now)

    def _choose(self, ready: Iterable[AssignedPartition], now: float) -> BatchChoice:
        parts: list[BatchPart] = []
        missing, wait = self._policy.size, self._policy.timeout_seconds
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
            wait = min(wait, self._policy.timeout_seconds - waited if partition.may_grow else 0)
        if not parts:
            return BatchChoice()
        return BatchChoice(parts) if wait <= 0 else BatchChoice(look_again_seconds=wait)


def _first(choices: Iterable[BatchChoice]) -> BatchChoice:
    """That is to be handed out; else when to look again."""
    waits: list[float] = []
    for choice in choices:
        if choice.parts:
            return choice
        if choice.look_again_seconds is not None:
            waits.append(choice.look_again_seconds)
    return BatchChoice(look_again_seconds=min(waits, default=None))


def next_part(partition: AssignedPartition, size: int) -> BatchPart | None:
    """As much of a partition as may go together now; None where its plan isn't fetched as a whole."""
    plan, buffer = partition.plan.plan, partition.lane.buffer
    first = buffer.next_offset
    assert first is not None, "something waits"
    if (batch := partition.plan.of(first)) is not None:
        if missing_of_plan(partition):
            return None
        return BatchPart(partition, buffer.count_below(batch.end), is_fixed=True)
    if plan is not None and (above := plan.above(first)) is not None:
        size = min(size, buffer.count_below(above.first))
    return BatchPart(partition, *buffer.count_together(size, partition.failed))

"""Which worker gets the next run of which partition. They choose; the dispatcher acts."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from headrace.runtime.partitions.assigned import AssignedPartition


class Allocator(Protocol):
    """Called by the dispatcher on its event loop; never blocks."""

    def place(self, partitions: Sequence[AssignedPartition]) -> None:
        """A new assignment: all partitions of the trigger that this replica now has."""

    def offer(self, partition: AssignedPartition) -> None:
        """It has records to hand out and none in flight. Offering twice is harmless."""

    def take(self, worker_index: int) -> AssignedPartition | None:
        """The deliverable partition that has waited longest among those that this worker may get."""

    def put_back(self, worker_index: int, partitions: Sequence[AssignedPartition]) -> None:
        """What `take` has just given, in its order: before all others."""

    def ready(self, worker_index: int) -> list[AssignedPartition]:
        """All deliverable partitions that this worker may get, in the order of `take`; they stay."""

    def worker_of(self, partition: AssignedPartition) -> int | None:
        """The one worker that gets this partition's records, None where any may."""


def take_deliverable(queue: deque[AssignedPartition]) -> AssignedPartition | None:
    """The first partition of `queue` that may still be handed out; those before it leave the queue."""
    while queue:
        partition = queue.popleft()
        partition.is_queued = False
        if partition.is_deliverable and not partition.in_flight_count:
            return partition
    return None


def put_back(queue: deque[AssignedPartition], partitions: Sequence[AssignedPartition]) -> None:
    """The first ones again."""
    queue.extendleft(reversed(partitions))
    for partition in partitions:
        partition.is_queued = True


def all_deliverable(queue: deque[AssignedPartition]) -> list[AssignedPartition]:
    """What `take_deliverable` would give one by one; the others leave the queue."""
    taken = list(iter(lambda: take_deliverable(queue), None))
    for partition in taken:
        partition.is_queued = True
        queue.append(partition)
    return taken


class PoolAllocator:
    """Any worker, first come, first served."""

    def __init__(self) -> None:
        self._ready: deque[AssignedPartition] = deque()

    def place(self, partitions: Sequence[AssignedPartition]) -> None:
        """Nothing is decided beforehand."""
        self._ready.clear()

    def offer(self, partition: AssignedPartition) -> None:
        """To the end of the one queue."""
        if not partition.is_queued:
            partition.is_queued = True
            self._ready.append(partition)

    def take(self, worker_index: int) -> AssignedPartition | None:
        """The head of the one queue."""
        return take_deliverable(self._ready)

    def put_back(self, worker_index: int, partitions: Sequence[AssignedPartition]) -> None:
        """To the head of the one queue."""
        put_back(self._ready, partitions)

    def ready(self, worker_index: int) -> list[AssignedPartition]:
        """The one queue."""
        return all_deliverable(self._ready)

    def worker_of(self, partition: AssignedPartition) -> int | None:
        """Any."""
        return None


class StaticAllocator:
    """Contiguous ranges: 20 partitions on 5 workers are 0-3, 4-7, 8-11, 12-15, 16-19."""

    def __init__(self, worker_count: int) -> None:
        self._ready: list[deque[AssignedPartition]] = [deque() for _ in range(worker_count)]
        self._worker_of: dict[tuple[str, int], int] = {}

    def place(self, partitions: Sequence[AssignedPartition]) -> None:
        """Ranges over all (topic, partition) in order; sizes differ by at most one."""
        for queue in self._ready:
            queue.clear()
        self._worker_of = contiguous_ranges((p.key for p in partitions), len(self._ready))

    def offer(self, partition: AssignedPartition) -> None:
        """To the end of its worker's queue."""
        if not partition.is_queued:
            partition.is_queued = True
            self._ready[self._worker_of[partition.key]].append(partition)

    def take(self, worker_index: int) -> AssignedPartition | None:
        """The head of this worker's queue."""
        return take_deliverable(self._ready[worker_index])

    def put_back(self, worker_index: int, partitions: Sequence[AssignedPartition]) -> None:
        """To the head of this worker's queue."""
        put_back(self._ready[worker_index], partitions)

    def ready(self, worker_index: int) -> list[AssignedPartition]:
        """This worker's queue."""
        return all_deliverable(self._ready[worker_index])

    def worker_of(self, partition: AssignedPartition) -> int | None:
        """Decided by the assignment."""
        return self._worker_of.get(partition.key)


def contiguous_ranges(keys: Iterable[tuple[str, int]], worker_count: int) -> dict[tuple[str, int], int]:
    """Worker index by key. The first workers get the larger ranges."""
    ordered = sorted(keys)
    size, larger = divmod(len(ordered), worker_count)
    workers = [worker for worker in range(worker_count) for _ in range(size + (worker < larger))]
    return dict(zip(ordered, workers, strict=True))

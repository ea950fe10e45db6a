"""Allocators: they choose which lane a worker gets next. The dispatcher acts."""

import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Lane


class PoolAllocator:
    """`workerAllocationMode: pool`: any worker gets any lane, first come, first served.

    Called by the dispatcher on its event loop; never blocks. The queue has each lane once.
    """

    is_shared = True
    """Whether a lane that waits may go to any worker."""

    def __init__(self) -> None:
        self._lanes: deque[Lane] = deque()
        self._offered_at: dict[int, float] = {}  # by lane id; of queued lanes only
        self.waited_seconds = 0.0
        """How long the lane that `take` returned last had been in the queue."""

    def place(self, keys: Collection[PartitionKey]) -> None:
        """Do nothing: which partitions are on this replica decides nothing here."""

    def worker_of(self, key: PartitionKey) -> int | None:
        """Return the index of the one worker that gets this partition's records; None: any may."""
        return None

    def offer(self, lane: Lane) -> bool:
        """Queue a lane that waits, with none in flight; return False if it is queued already."""
        if lane.id in self._offered_at:
            return False
        self._offered_at[lane.id] = time.monotonic()
        self._lanes.append(lane)
        return True

    def take(self, worker_index: int) -> Lane | None:
        """Remove and return the deliverable lane that has waited longest and may go to this worker."""
        while self._lanes:
            lane = self._lanes.popleft()
            since = self._offered_at.pop(lane.id)
            # A lane that is revoked, or goes to a worker in another way, stays queued: it is skipped here.
            if _is_waiting(lane):
                self.waited_seconds = time.monotonic() - since
                return lane
        return None

    def put_back(self, worker_index: int, lanes: Sequence[Lane]) -> None:
        """Return lanes that `take` has just given, in the same order, to the front of the queue."""
        self._lanes.extendleft(reversed(lanes))
        # Their wait is counted from here on: `take` has forgotten since when they waited.
        self._offered_at |= dict.fromkeys((lane.id for lane in lanes), time.monotonic())

    def prune(self, worker_index: int) -> list[Lane]:
        """Drop the lanes that can't be handed out to this worker now; return the others in order of `take`.

        A dropped lane comes back by `offer`, at the end of the queue.
        """
        left = [lane for lane in self._lanes if _is_waiting(lane)]
        self._lanes = deque(left)
        self._offered_at = {lane.id: self._offered_at[lane.id] for lane in left}
        return left


class StaticAllocator:
    """`workerAllocationMode: static`: a partition is one worker's, which has a queue of its own.

    Workers get contiguous ranges: 20 partitions on 5 workers are 0-3, 4-7, 8-11, 12-15, 16-19. A lane without
    a partition goes to the first worker.
    """

    is_shared = False

    def __init__(self, worker_count: int) -> None:
        self._queues = [PoolAllocator() for _ in range(worker_count)]
        self._worker_of: dict[PartitionKey, int] = {}
        self._last_taken = self._queues[0]

    @property
    def waited_seconds(self) -> float:
        """How long the lane that `take` returned last had been in its queue."""
        return self._last_taken.waited_seconds

    def place(self, keys: Collection[PartitionKey]) -> None:
        """Spread `keys`, all partitions of the trigger on this replica, over the workers.

        If none of them was here before: in contiguous ranges, whose sizes differ by at most one. Otherwise
        partitions that stay keep their workers, and new ones go to the workers that have fewest.
        """
        stay = {key: worker for key, worker in self._worker_of.items() if key in keys}
        self._worker_of = stay or contiguous_ranges(keys, len(self._queues))
        loads = [0] * len(self._queues)  # partitions of each worker
        for worker in self._worker_of.values():
            loads[worker] += 1
        for key in sorted(set(keys) - self._worker_of.keys()):
            self._worker_of[key] = worker = loads.index(min(loads))
            loads[worker] += 1

    def worker_of(self, key: PartitionKey) -> int | None:
        """Return the index of the worker that gets this partition's records; None before `place` knows it."""
        return self._worker_of.get(key)

    def offer(self, lane: Lane) -> bool:
        """Queue a lane for its worker; return False if it is queued already."""
        return self._queues[self._worker_of.get(lane.key, 0)].offer(lane)

    def take(self, worker_index: int) -> Lane | None:
        """Remove and return the deliverable lane that has waited longest in this worker's queue."""
        self._last_taken = self._queues[worker_index]
        return self._last_taken.take(worker_index)

    def put_back(self, worker_index: int, lanes: Sequence[Lane]) -> None:
        """Return lanes that `take` has just given, in the same order, to the front of this worker's queue."""
        self._queues[worker_index].put_back(worker_index, lanes)

    def prune(self, worker_index: int) -> list[Lane]:
        """Drop lanes from this worker's queue that can't be handed out now; return the others, in order."""
        return self._queues[worker_index].prune(worker_index)


Allocator: TypeAlias = PoolAllocator | StaticAllocator


def allocator_of(policy: DeliveryPolicy, worker_count: int) -> Allocator:
    """Build the allocator that `workerAllocationMode` names."""
    return StaticAllocator(worker_count) if policy.worker_allocation_mode == "static" else PoolAllocator()


def contiguous_ranges(keys: Iterable[PartitionKey], worker_count: int) -> dict[PartitionKey, int]:
    """Assign sorted keys to worker indexes in ranges; the first workers get the larger ones."""
    ordered = sorted(keys)
    size, larger = divmod(len(ordered), worker_count)
    workers = [worker for worker in range(worker_count) for _ in range(size + (worker < larger))]
    return dict(zip(ordered, workers, strict=True))


def _is_waiting(lane: Lane) -> bool:
    return not lane.in_flight_count and lane.is_deliverable

"""Which worker gets the next run of which lane. They choose; the dispatcher acts."""

import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Lane


class Allocator(Protocol):
    """Called by the dispatcher on its event loop; never blocks. Only its own queues are its state."""

    is_shared: bool
    """Whether all workers get what waits, and none of it is one's own."""

    @property
    def waited_seconds(self) -> float:
        """How long that had been offered which `take` has given last."""

    def place(self, keys: Collection[PartitionKey]) -> None:
        """What this replica has changed: these are all the partitions of the trigger that are here now."""

    def offer(self, lane: Lane) -> bool:
        """It has records to hand out and none in flight; whether it wasn't offered already."""

    def take(self, worker_index: int) -> Lane | None:
        """The deliverable lane that has waited longest among those that this worker may get."""

    def put_back(self, worker_index: int, lanes: Sequence[Lane]) -> None:
        """What `take` has just given, in its order: before all others."""

    def prune(self, worker_index: int) -> list[Lane]:
        """Forget what this worker can't be given now: it comes back by `offer`, at the end.

        What is left, all that it can be given, in the order of `take`; it stays.
        """

    def worker_of(self, key: PartitionKey) -> int | None:
        """The one worker that gets this partition's records, None where any may."""


class LaneQueue:
    """Lanes in the order in which they were offered, each once."""

    def __init__(self) -> None:
        self._lanes: deque[Lane] = deque()
        self._ids: dict[int, float] = {}  # since when it is there
        self.waited_seconds = 0.0
        """What `take` has given last."""

    def offer(self, lane: Lane) -> bool:
        """To the end, unless it is there."""
        if lane.id in self._ids:
            return False
        self._ids[lane.id] = time.monotonic()
        self._lanes.append(lane)
        return True

    def take(self) -> Lane | None:
        """The first that may still be handed out; those before it leave the queue."""
        while self._lanes:
            lane = self._lanes.popleft()
            since = self._ids.pop(lane.id)
            if _is_waiting(lane):
                self.waited_seconds = time.monotonic() - since
                return lane
        return None

    def put_back(self, lanes: Sequence[Lane]) -> None:
        """To the beginning, in this order."""
        self._lanes.extendleft(reversed(lanes))
        self._ids |= dict.fromkeys((lane.id for lane in lanes), time.monotonic())

    def waiting(self) -> list[Lane]:
        """What `take` would give one by one."""
        return [lane for lane in self._lanes if _is_waiting(lane)]

    def prune(self) -> list[Lane]:
        """Forget those that can't be handed out now; the others."""
        left = self.waiting()
        self._lanes = deque(left)
        self._ids = {lane.id: self._ids[lane.id] for lane in left}
        return left


def _is_waiting(lane: Lane) -> bool:
    return not lane.in_flight_count and lane.is_deliverable


class PoolAllocator:
    """Any worker, first come, first served."""

    is_shared = True

    def __init__(self) -> None:
        self._queue = LaneQueue()

    @property
    def waited_seconds(self) -> float:
        """In the one queue."""
        return self._queue.waited_seconds

    def place(self, keys: Collection[PartitionKey]) -> None:
        """Nothing is decided beforehand."""

    def offer(self, lane: Lane) -> bool:
        """To the end of the one queue."""
        return self._queue.offer(lane)

    def take(self, worker_index: int) -> Lane | None:
        """The head of the one queue."""
        return self._queue.take()

    def put_back(self, worker_index: int, lanes: Sequence[Lane]) -> None:
        """To the head of the one queue."""
        self._queue.put_back(lanes)

    def prune(self, worker_index: int) -> list[Lane]:
        """The one queue."""
        return self._queue.prune()

    def worker_of(self, key: PartitionKey) -> int | None:
        """Any."""
        return None


class StaticAllocator:
    """Contiguous ranges: 20 partitions on 5 workers are 0-3, 4-7, 8-11, 12-15, 16-19.

    A lane without a partition of its own goes to the first worker.
    """

    is_shared = False

    def __init__(self, worker_count: int) -> None:
        self._queues = [LaneQueue() for _ in range(worker_count)]
        self._worker_of: dict[PartitionKey, int] = {}
        self._last = self._queues[0]

    @property
    def waited_seconds(self) -> float:
        """In the queue that was asked last."""
        return self._last.waited_seconds

    def place(self, keys: Collection[PartitionKey]) -> None:
        """Ranges over all in order, whose sizes differ by at most one, where none was here before.

        What was keeps its worker, and so does what waits: the others go to those that have fewest.
        """
        stay = {key: worker for key, worker in self._worker_of.items() if key in keys}
        self._worker_of = stay or contiguous_ranges(keys, len(self._queues))
        loads = [0] * len(self._queues)
        for worker in self._worker_of.values():
            loads[worker] += 1
        for key in sorted(set(keys) - self._worker_of.keys()):
            self._worker_of[key] = worker = loads.index(min(loads))
            loads[worker] += 1

    def offer(self, lane: Lane) -> bool:
        """To the end of its worker's queue."""
        return self._queues[self._worker_of.get(lane.key, 0)].offer(lane)

    def take(self, worker_index: int) -> Lane | None:
        """The head of this worker's queue."""
        self._last = self._queues[worker_index]
        return self._last.take()

    def put_back(self, worker_index: int, lanes: Sequence[Lane]) -> None:
        """To the head of this worker's queue."""
        self._queues[worker_index].put_back(lanes)

    def prune(self, worker_index: int) -> list[Lane]:
        """This worker's queue."""
        return self._queues[worker_index].prune()

    def worker_of(self, key: PartitionKey) -> int | None:
        """Decided by what this replica has."""
        return self._worker_of.get(key)


def contiguous_ranges(keys: Iterable[PartitionKey], worker_count: int) -> dict[PartitionKey, int]:
    """Worker index by key. The first workers get the larger ranges."""
    ordered = sorted(keys)
    size, larger = divmod(len(ordered), worker_count)
    workers = [worker for worker in range(worker_count) for _ in range(size + (worker < larger))]
    return dict(zip(ordered, workers, strict=True))

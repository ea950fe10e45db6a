"""Without batches: a worker gets runs, consecutive records of one lane. The dispatcher says when."""

import asyncio
import sys
from collections.abc import Callable
from typing import TypeAlias

from headrace.runtime.dispatch.run_sizer import MAX_RUN_BYTES
from headrace.runtime.dispatch.state import DispatcherState
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.partition_lane import PartitionLane
from headrace.runtime.workers.handle import WorkerHandle

# Lanes that a worker may be asked to leave, as another worker suits them better, before it takes none.
_MAX_PASSED = 100
# The next record is sent this long before one ends. A hop takes half of it, on a busy machine all.
_LEAD_SECONDS = 0.002

Refuse: TypeAlias = Callable[[AssignedPartition, PartitionLane], None]
"""End the next record of a lane, which must not be delivered."""


class RunScheduler:
    """Hands out runs of as many records as keep a worker busy for a few milliseconds."""

    def __init__(self, state: DispatcherState, refuse: Refuse, dispatch: Callable[[], None]) -> None:
        """`dispatch` is called when a worker is about to be free."""
        self._state = state
        self._refuse = refuse
        self._dispatch = dispatch
        self._timers: dict[int, asyncio.TimerHandle] = {}  # by worker index: when its record is about to end
        # By worker index: lanes whose next record goes alone. The worker gets nothing else until it is empty.
        self._reserved: dict[int, Lane] = {}

    def hand_out(self, worker: WorkerHandle) -> bool:
        """Send one run to a worker that is ready; False if it has no room, or no lane has a run for it."""
        in_flight, sizer = worker.in_flight, self._state.run_sizer
        if in_flight.runs and (in_flight.is_isolated or self._is_reserved(worker)):
            return False
        self._reserved.pop(worker.index, None)
        has_room = self._has_room(worker)
        lane = self._next_for(worker) if has_room else None
        waited_seconds = self._state.allocator.waited_seconds if lane is not None else 0.0
        lane = lane or self._lane_in_flight(worker, has_room)
        if lane is None:
            return False
        in_flight.is_isolated = in_flight.overlaps and lane.goes_alone
        part = lane.next_part()
        if isinstance(part, PartitionLane) and part.is_head_refused:
            self._refuse(self._state.partitions[lane.id], part)
        else:
            self._state.metrics_of(part).on_allocated(waited_seconds, self._state.idle_share)
            worker.sender.send(part, part.take(sizer.run_length, MAX_RUN_BYTES))
        if part is not lane:  # other keys of the partition may follow, after the lanes that wait beside it
            self._state.offer(lane)
        return True

    def _has_room(self, worker: WorkerHandle) -> bool:
        """Whether the worker runs less than it could, or will in a moment."""
        in_flight = worker.in_flight
        is_short = in_flight.has_free_seat or self._state.run_sizer.has_room(len(in_flight), in_flight.seats)
        return is_short or self._is_soon_free(worker)

    def _is_soon_free(self, worker: WorkerHandle) -> bool:
        """Whether the worker's only record is about to end, so that the next one is sent before it does.

        If it isn't yet, `dispatch` is called when it is. When a record will end is judged by how long others
        took, if their times are steady.
        """
        sizer = self._state.run_sizer
        if worker.in_flight.overlaps or len(worker.in_flight) != 1 or not sizer.is_predictable:
            return False
        usual_seconds = sizer.ns_per_record / 1e9
        # Since when it runs is read from the worker's process, which may be wrong by anything: never longer.
        left_seconds = min([usual_seconds, *(usual_seconds - it.seconds for it in worker.running())])
        if left_seconds > _LEAD_SECONDS and worker.index not in self._timers:
            # No event tells that a record has run for so long: a timer for each worker does.
            self._timers[worker.index] = asyncio.get_running_loop().call_later(
                left_seconds - _LEAD_SECONDS, self._on_timer, worker.index
            )
        return abs(left_seconds) <= _LEAD_SECONDS

    def _on_timer(self, worker_index: int) -> None:
        del self._timers[worker_index]
        self._dispatch()

    def _lane_in_flight(self, worker: WorkerHandle, has_room: bool) -> Lane | None:
        """Return a lane of which the worker has records and may get more, so that its queue never runs dry.

        No other worker may have the rest of such a lane. If several records run at once, each of their lanes
        has a queue of its own, of one run; otherwise the worker has one queue.
        """
        if worker.in_flight.overlaps:
            most = self._state.run_sizer.run_length + 1
        else:
            most = sys.maxsize if has_room else 0
        lanes = (run.lane for run in worker.in_flight.runs if run.lane.in_flight_count < most)
        return next((lane for lane in lanes if lane.is_deliverable), None)

    def _suits(self, worker: WorkerHandle, lane: Lane) -> bool:
        """Whether the worker may have the lane's next record now.

        A record that may kill its worker goes alone: one worker runs empty for it, with static allocation
        the one that its partition belongs to.
        """
        if not (worker.in_flight.overlaps and worker.in_flight.runs and lane.goes_alone):
            return worker.sender.suits(lane)
        is_its_own = self._state.allocator.worker_of(lane.key) is not None
        if is_its_own or not any(map(self._is_reserved, self._state.workers)):
            self._reserved[worker.index] = lane
        return False

    def _is_reserved(self, worker: WorkerHandle) -> bool:
        """Whether the worker runs empty for a record that still waits to go alone."""
        lane = self._reserved.get(worker.index)
        return lane is not None and worker.is_ready and lane.is_deliverable and lane.goes_alone

    def _next_for(self, worker: WorkerHandle) -> Lane | None:
        """Return the lane that has waited longest of those that suit the worker; of all, if it idles."""
        allocator, passed = self._state.allocator, list[Lane]()
        while (lane := allocator.take(worker.index)) is not None and not self._suits(worker, lane):
            passed.append(lane)
            if len(passed) == _MAX_PASSED:
                lane = None
                break
        if lane is None and passed and not worker.in_flight.runs:
            lane = passed.pop(0)
        if passed:
            allocator.put_back(worker.index, passed)
        return lane

    async def stop(self) -> None:
        """Call `dispatch` no more. Idempotent."""
        for timer in self._timers.values():
            timer.cancel()

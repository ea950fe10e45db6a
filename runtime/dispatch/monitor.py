"""What a dispatcher's state looks like to people: workers on a status page, what takes suspiciously long."""

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.runtime.dispatch.ack_stalls import AckStallMonitor
from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.flow_control import is_out_of_order
from headrace.runtime.partitions.key import describe_partitions
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.in_flight import RunningRecord


class OldestOpen:
    """Seen from look to look, so true to the time between two. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._lowest: dict[int, tuple[int, float]] = {}  # open, by lane: its offset, and since when

    def look(self, partitions: Mapping[int, AssignedPartition], now: float) -> None:
        """Once. `partitions` by their lanes."""
        for lane_id in self._lowest.keys() - partitions.keys():
            del self._lowest[lane_id]
        for lane_id, partition in partitions.items():
            partition.oldest_open_seconds = self._open(lane_id, partition, now)
            partition.oldest_unacked_seconds = partition.unacked.look(now)

    def _open(self, lane_id: int, partition: AssignedPartition, now: float) -> float:
        ledger = partition.ledger
        lowest = self._lowest.get(lane_id, (-1, now))[0]
        if not ledger.open_count or lowest != ledger.committable:
            self._lowest[lane_id] = ledger.committable, now
        return now - self._lowest[lane_id][1] if ledger.open_count else 0.0


logger = logging.getLogger(__name__)


_INTERVAL_SECONDS = 1.0


_MOST_NAMED = 3


_MOST_LISTED = 100


def worker_statuses(dispatcher: Dispatcher) -> list[dict[str, Any]]:
    """Each worker, for a status page: JSON types only."""
    return [_worker_status(dispatcher, worker) for worker in dispatcher.workers]


def _worker_status(dispatcher: Dispatcher, worker: WorkerHandle) -> dict[str, Any]:
    found = sorted(worker.running(), key=lambda it: it.since_ns)
    running = [f"{it.lane.key} offset {it.record.offset}" for it in found]
    partitions = dispatcher.partitions.values()
    assigned = [p.key for p in partitions if dispatcher.allocator.worker_of(p.key) == worker.index]
    return {
        "index": worker.index,
        "pid": worker.pid,
        "state": worker.state.value,
        "restarts": worker.restarts,
        "inFlight": len(worker.in_flight),
        "running": ", ".join(running[:_MOST_NAMED]) + _more(len(running)) or None,
        "runningRecords": [_record_status(it) for it in found[:_MOST_LISTED]],
        "partitions": describe_partitions(assigned) if assigned else None,
    }


def _record_status(running: RunningRecord) -> dict[str, Any]:
    """Since when, too: who looks twice sees whether it is the same call."""
    seconds = running.seconds
    return {
        "topic": running.lane.key.topic,
        "partition": running.lane.key.partition,
        "offset": running.record.offset,
        "runningSeconds": round(seconds, 1),
        "since": datetime.fromtimestamp(time.time() - seconds, UTC).isoformat(timespec="seconds"),
    }


def _more(count: int) -> str:
    return f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""


class DispatchMonitor:
    """Logs, once each, what a person may want to know before it becomes a problem."""

    def __init__(self, dispatcher: Dispatcher, metrics: TriggerMetrics) -> None:
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._long: set[tuple[int, int]] = set()
        self._unacked = AckStallMonitor(dispatcher.limit_of)
        self._out_of_order: set[int] = set()  # partitions, by their lanes
        self._ages = OldestOpen()

    async def look_forever(self) -> None:
        """Every second."""
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            self.look()

    def look(self) -> None:
        """Once. What has ended before a long record leaves first: what leaves ends a pause."""
        self._dispatcher.sync_progress()
        for worker in self._dispatcher.workers:
            for running in worker.running():
                self._look_at(running)
        now, partitions = time.monotonic(), self._dispatcher.partitions
        self._ages.look(partitions, now)
        if self._dispatcher.policy.ack_mode.is_explicit:
            self._unacked.look(partitions, now)
        self._look_at_order()

    def problems(self) -> list[str]:
        """Of these, what only the function's author can mend."""
        told = self._unacked.problems(self._dispatcher.partitions, time.monotonic())
        return told + [line for it in self._dispatcher.partitions.values() if (line := self._stall(it))]

    def _stall(self, partition: AssignedPartition) -> str:
        seconds = partition.oldest_open_seconds
        limit = self._dispatcher.limit_of(partition)
        if not limit or seconds < self._dispatcher.policy.max_processing_time_seconds:
            return ""
        return (
            f"{partition} has stood for {seconds:.0f} s, longer than maxProcessingTime, at offset"
            f" {partition.ledger.committable}, which is open: {limit} is reached"
        )

    def _look_at_order(self) -> None:
        full = {id_: it for id_, it in self._dispatcher.partitions.items() if is_out_of_order(it)}
        for id_ in full.keys() - self._out_of_order:
            logger.warning(
                "%s: as many records have overtaken offset %d as a commit can tell of; no more are handed out"
                " before it has ended",
                full[id_],
                full[id_].ledger.committable,
            )
        self._out_of_order = set(full)

    def _look_at(self, running: RunningRecord) -> None:
        """One that runs longer than maxProcessingTime."""
        if running.lane.whole.id not in self._dispatcher.partitions:
            return
        seconds = running.seconds
        if seconds < self._dispatcher.policy.max_processing_time_seconds:
            return
        lane, record = running.lane, running.record
        if (lane.id, record.offset) in self._long:
            return
        self._long.add((lane.id, record.offset))
        self._metrics.long_records.inc()
        self._dispatcher.pause(lane)
        logger.warning(
            "%s offset %d has run for %.0f s, longer than maxProcessingTime; its partition isn't fetched "
            "before it ends",
            lane.key,
            record.offset,
            seconds,
        )

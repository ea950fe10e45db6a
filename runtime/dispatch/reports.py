"""What a dispatcher's state looks like to people: workers on a status page, what takes suspiciously long."""

import asyncio
import logging
import time
from typing import Any

from headrace.runtime.dispatch.acks.unacked import Unacked
from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.metrics import TriggerMetrics
from headrace.runtime.partitions.key import describe_partitions
from headrace.runtime.workers.handle import WorkerHandle

logger = logging.getLogger(__name__)

_INTERVAL_SECONDS = 1.0


def worker_statuses(dispatcher: Dispatcher) -> list[dict[str, Any]]:
    """Each worker, for a status page: JSON types only."""
    return [_worker_status(dispatcher, worker) for worker in dispatcher.workers]


def _worker_status(dispatcher: Dispatcher, worker: WorkerHandle) -> dict[str, Any]:
    running = worker.look()
    partitions = dispatcher.partitions.values()
    assigned = [p.key for p in partitions if dispatcher.allocator.worker_of(p.key) == worker.index]
    return {
        "index": worker.index,
        "pid": worker.pid,
        "state": worker.state.value,
        "restarts": worker.restarts,
        "inFlight": len(worker.in_flight),
        "running": f"{running.lane.key} offset {running.record.offset}" if running else None,
        "partitions": describe_partitions(assigned) if assigned else None,
    }


class Warnings:
    """Logs, once each, what a person may want to know before it becomes a problem."""

    def __init__(self, dispatcher: Dispatcher, metrics: TriggerMetrics) -> None:
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._long: set[tuple[int, int]] = set()
        self._unacked = Unacked()

    async def look_forever(self) -> None:
        """Every second."""
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            self.look()

    def look(self) -> None:
        """Once. What has ended before a long record leaves first: what leaves ends a pause."""
        self._dispatcher.sync_progress()
        for worker in self._dispatcher.workers:
            self._look_at_worker(worker)
        if self._dispatcher.policy.ack_mode.is_explicit:
            self._unacked.look(self._dispatcher.partitions, time.monotonic())

    def problems(self) -> list[str]:
        """Of these, what only the function's author can mend."""
        return self._unacked.problems(self._dispatcher.partitions, time.monotonic())

    def _look_at_worker(self, worker: WorkerHandle) -> None:
        """Records that run longer than maxProcessingTime."""
        running = worker.look()
        if running is None or running.lane.id not in self._dispatcher.partitions:
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

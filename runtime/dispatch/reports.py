"""What a dispatcher's state looks like to people: the assignment in the log, workers on a status page, and
what goes on for suspiciously long."""

import logging
import time
from typing import Any

from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.metrics import TriggerMetrics
from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.partitions.names import describe_partitions
from headrace.runtime.workers.handle import WorkerHandle

logger = logging.getLogger(__name__)


def log_assignment(dispatcher: Dispatcher) -> None:
    """Which partitions go to which worker."""
    by_worker: dict[int | None, list[tuple[str, int]]] = {}
    for partition in dispatcher.partitions.values():
        by_worker.setdefault(dispatcher.allocator.worker_of(partition), []).append(partition.key)
    for worker, keys in by_worker.items():
        where = f"any of {len(dispatcher.workers)} workers" if worker is None else f"worker {worker}"
        logger.info("assigned: %s -> %s", describe_partitions(keys), where)
    if not by_worker:
        logger.info("assigned: no partitions; this replica stands by")


def worker_statuses(dispatcher: Dispatcher) -> list[dict[str, Any]]:
    """Each worker, for a status page: JSON types only."""
    return [_worker_status(dispatcher, worker) for worker in dispatcher.workers]


def _worker_status(dispatcher: Dispatcher, worker: WorkerHandle) -> dict[str, Any]:
    progress = worker.sync_progress()
    found = worker.in_flight.find(progress.seq) if progress and progress.is_running else None
    partitions = dispatcher.partitions.values()
    assigned = [p.key for p in partitions if dispatcher.allocator.worker_of(p) == worker.index]
    return {
        "index": worker.index,
        "pid": worker.pid,
        "state": worker.state.value,
        "restarts": worker.restarts,
        "inFlight": len(worker.in_flight),
        "running": f"{found[0]} offset {found[1].offset}" if found else None,
        "partitions": describe_partitions(assigned) if assigned else None,
    }


class Warnings:
    """Logs, once each, what a person may want to know before it becomes a problem."""

    def __init__(self, dispatcher: Dispatcher, metrics: TriggerMetrics, long_seconds: float) -> None:
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._long_seconds = long_seconds  # maxProcessingTime
        self._long: set[tuple[int, int]] = set()
        self._full: set[int] = set()

    def look(self) -> None:
        """Called every second or so."""
        for worker in self._dispatcher.workers:
            self._look_at_worker(worker)
        if self._dispatcher.takes_acks:
            partitions = self._dispatcher.partitions
            self._full = {id_ for id_, p in partitions.items() if self._is_full(p)}

    def _look_at_worker(self, worker: WorkerHandle) -> None:
        """Records that run longer than maxProcessingTime."""
        progress = worker.sync_progress()
        if progress is None or not progress.is_running:
            return
        seconds = (time.monotonic_ns() - progress.since_ns) / 1e9
        found = worker.in_flight.find(progress.seq)
        if found is None or seconds < self._long_seconds:
            return
        partition, record = found
        if (partition.id, record.offset) in self._long:
            return
        self._long.add((partition.id, record.offset))
        self._metrics.long_records.inc()
        partition.is_paused = True
        self._dispatcher.feed.on_room(partition)
        logger.warning(
            "%s offset %d has run for %.0f s, longer than maxProcessingTime; its partition isn't fetched "
            "before it ends",
            partition,
            record.offset,
            seconds,
        )

    def _is_full(self, partition: AssignedPartition) -> bool:
        """All that it may hold waits for acks."""
        is_full = partition.waits_for_acks
        if is_full and partition.id not in self._full:
            later = partition.ledger.settled_spans()
            hint = (
                "later ones were acked: if an ack of the function means all records up to its own, set"
                " explicitAckSemantics: cumulative or call explicit_ack_through"
                if later
                else "it gets no more before some are acked; maxInFlight and maxBufferedBytes say how many it"
                " may hold (with delivery: ranges, one range)"
            )
            logger.warning(
                "%s holds %d unacked records, the first at offset %d; %s",
                partition,
                len(partition.unacked),
                partition.ledger.committable,
                hint,
            )
        return is_full

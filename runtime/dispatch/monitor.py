"""A dispatcher's state for people: workers on a status page, and warnings of what stands still."""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import describe_partitions
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.in_flight import RunningRecord

logger = logging.getLogger(__name__)

_INTERVAL_SECONDS = 1.0
_MAX_NAMED = 3
_MAX_LISTED = 100
# If several records are acked one by one, an ack above open ones is usual for a moment.
_OVERTAKEN_SECONDS = 5.0
_CURE = (
    "if an ack of the function means all records up to its own, set explicitAckSemantics: cumulative or call"
    " explicit_ack_through"
)

_Since = tuple[int, float]
"""An offset, and since when it has been the lowest one: seconds of the clock that `look` goes by."""


def worker_statuses(dispatcher: Dispatcher) -> list[dict[str, Any]]:
    """Return a row for each worker, for a status page: JSON types only."""
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
        "running": ", ".join(running[:_MAX_NAMED]) + _more(len(running)) or None,
        "runningRecords": [_record_status(it) for it in found[:_MAX_LISTED]],
        "partitions": describe_partitions(assigned) if assigned else None,
    }


def _record_status(running: RunningRecord) -> dict[str, Any]:
    """Return a running record's place, and since when it runs: that tells one call from the next."""
    seconds = running.seconds
    return {
        "topic": running.lane.key.topic,
        "partition": running.lane.key.partition,
        "offset": running.record.offset,
        "runningSeconds": round(seconds, 1),
        "since": datetime.fromtimestamp(time.time() - seconds, UTC).isoformat(timespec="seconds"),
    }


def _more(count: int) -> str:
    return f" and {count - _MAX_NAMED} more" if count > _MAX_NAMED else ""


class DispatchMonitor:
    """Measures how long records stay open, and logs what stands still, once each.

    Ages are measured from look to look, so they are true to a second.
    """

    def __init__(self, dispatcher: Dispatcher, metrics: TriggerMetrics) -> None:
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._long_records: set[tuple[int, int]] = set()  # lane ids and offsets
        # By lane id of the partition:
        self._lowest_open: dict[int, _Since] = {}
        self._overtaken: dict[int, _Since] = {}  # lowest open offsets that wait for an ack below acked ones
        self._full: set[int] = set()  # partitions of which all that they may hold waits for acks
        self._out_of_order: set[int] = set()
        self._has_warned_of_overtaken = False

    async def look_forever(self) -> None:
        """Look every second."""
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            self.look()

    def look(self) -> None:
        """Look once."""
        # First, so that long records that have ended leave their workers: that ends their partition's pause.
        self._dispatcher.sync_progress()
        for worker in self._dispatcher.workers:
            for running in worker.running():
                self._check_duration(running)
        now, partitions = time.monotonic(), self._dispatcher.partitions
        self.measure_ages(partitions, now)
        if self._dispatcher.policy.ack_mode.is_explicit:
            self.check_acks(partitions, now)
        self._check_order()

    def problems(self) -> list[str]:
        """Return what only the function's author can mend, one line each."""
        found = self.ack_problems(self._dispatcher.partitions, time.monotonic())
        return found + [line for it in self._dispatcher.partitions.values() if (line := self._stall(it))]

    # ---- ages

    def measure_ages(self, partitions: Mapping[int, AssignedPartition], now: float) -> None:
        """Write the ages of the oldest open and the oldest unacked record into each partition."""
        for lane_id in self._lowest_open.keys() - partitions.keys():
            del self._lowest_open[lane_id]
        for lane_id, partition in partitions.items():
            partition.oldest_open_seconds = self._open_seconds(lane_id, partition, now)
            partition.oldest_unacked_seconds = partition.awaiting_ack.look(now)

    def _open_seconds(self, lane_id: int, partition: AssignedPartition, now: float) -> float:
        ledger = partition.ledger
        lowest = self._lowest_open.get(lane_id, (-1, now))[0]
        if not ledger.open_count or lowest != ledger.committable:
            self._lowest_open[lane_id] = ledger.committable, now
        return now - self._lowest_open[lane_id][1] if ledger.open_count else 0.0

    def _stall(self, partition: AssignedPartition) -> str:
        seconds = partition.oldest_open_seconds
        limit = self._dispatcher.limit_of(partition)
        if not limit or seconds < self._dispatcher.policy.max_processing_time_seconds:
            return ""
        return (
            f"{partition} has stood for {seconds:.0f} s, longer than maxProcessingTime, at offset"
            f" {partition.ledger.committable}, which is open: {limit} is reached"
        )

    # ---- records that nobody acks

    def check_acks(self, partitions: Mapping[int, AssignedPartition], now: float) -> None:
        """Warn of handled records that nobody acks: below acked ones, or all that a partition may hold."""
        self._overtaken = {
            lane_id: self._since(lane_id, partition.ledger.committable, now)
            for lane_id, partition in partitions.items()
            if _is_overtaken(partition)
        }
        self._warn_of_overtaken([partitions[lane_id] for lane_id in self._long_overtaken(now)])
        self._full = {
            lane_id for lane_id, partition in partitions.items() if self._is_full(lane_id, partition)
        }

    def ack_problems(self, partitions: Mapping[int, AssignedPartition], now: float) -> list[str]:
        """Return the partitions that are full of records that nobody acks, while later ones were acked."""
        full = [it for it in self._long_overtaken(now) if it in partitions and it in self._full]
        return [
            f"{partition} is full of handled records that nobody acks, the first at offset"
            f" {partition.ledger.committable}, though later ones were acked; {_CURE}"
            for partition in map(partitions.__getitem__, full)
        ]

    def _since(self, lane_id: int, offset: int, now: float) -> _Since:
        known = self._overtaken.get(lane_id)
        return known if known is not None and known[0] == offset else (offset, now)

    def _long_overtaken(self, now: float) -> list[int]:
        return [id_ for id_, (_, since) in self._overtaken.items() if now - since >= _OVERTAKEN_SECONDS]

    def _warn_of_overtaken(self, partitions: Collection[AssignedPartition]) -> None:
        if partitions and not self._has_warned_of_overtaken:
            self._has_warned_of_overtaken = True
            partition = next(iter(partitions))
            logger.warning(
                "%s offset %d was handled %.0f s ago or more and not acked, though later ones were: it stays"
                " uncommitted; %s",
                partition,
                partition.ledger.committable,
                _OVERTAKEN_SECONDS,
                _CURE,
            )

    def _is_full(self, lane_id: int, partition: AssignedPartition) -> bool:
        """Whether all that the partition may hold waits for acks. Warns when that begins."""
        is_full = partition.waits_for_acks
        if is_full and lane_id not in self._full:
            is_overtaken, limit = _is_overtaken(partition), self._dispatcher.limit_of(partition)
            logger.warning(
                "%s holds %d unacked records, the first at offset %d; %s",
                partition,
                len(partition.awaiting_ack),
                partition.ledger.committable,
                f"later ones were acked: {_CURE}"
                if is_overtaken
                else f"it gets no more before some are acked: {limit} is reached",
            )
        return is_full

    # ---- records that overtake, and records that take long

    def _check_order(self) -> None:
        full = {id_: it for id_, it in self._dispatcher.partitions.items() if it.is_out_of_order}
        for id_ in full.keys() - self._out_of_order:
            logger.warning(
                "%s: as many records have overtaken offset %d as a commit can tell of; no more are handed out"
                " before it has ended",
                full[id_],
                full[id_].ledger.committable,
            )
        self._out_of_order = set(full)

    def _check_duration(self, running: RunningRecord) -> None:
        """Pause the partition of a record that runs longer than maxProcessingTime."""
        if running.lane.whole.id not in self._dispatcher.partitions:
            return
        seconds = running.seconds
        if seconds < self._dispatcher.policy.max_processing_time_seconds:
            return
        lane, record = running.lane, running.record
        if (lane.id, record.offset) in self._long_records:
            return  # it is paused already
        self._long_records.add((lane.id, record.offset))
        self._metrics.long_records.inc()
        self._dispatcher.pause(lane)
        logger.warning(
            "%s offset %d has run for %.0f s, longer than maxProcessingTime; its partition isn't fetched "
            "before it ends",
            lane.key,
            record.offset,
            seconds,
        )


def _is_overtaken(partition: AssignedPartition) -> bool:
    """Whether the lowest open record was handled and not acked, and something above it was acked."""
    ledger = partition.ledger
    is_open = ledger.committable in partition.awaiting_ack
    return is_open and ledger.open_count < ledger.position - ledger.committable

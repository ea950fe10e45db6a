"""The gauges as they are now, from what a trigger reports of itself, its workers and partitions."""

from collections.abc import Iterable

from headrace.runtime.metrics.gauges import Gauges
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.watchdog import resident_bytes
from headrace.triggers.base import TriggerStatus


def fill_gauges(
    gauges: Gauges, labels: tuple[str, ...], workers: Iterable[WorkerHandle], status: TriggerStatus
) -> None:
    """Of one trigger, whose labels' values are `labels`."""
    for worker in workers:
        of_worker = (*labels, worker.index)
        gauges.ready.labels(*of_worker).set(worker.is_ready)
        gauges.in_flight.labels(*of_worker).set(len(worker.in_flight))
        longest = max((running.seconds for running in worker.running()), default=0.0)
        gauges.running.labels(*of_worker).set(longest)
        gauges.resident.labels(*of_worker).set(resident_bytes(worker.pid) if worker.pid is not None else 0)
    if status.buffered_bytes is not None:
        gauges.buffered.labels(*labels).set(status.buffered_bytes)
    if status.last_commit_seconds is not None:
        gauges.commit_age.labels(*labels).set(status.last_commit_seconds)
    for row in status.partitions:
        keys = (*labels, row.topic, row.partition)
        gauges.unsettled.labels(*keys).set(row.unsettled)
        gauges.unacked.labels(*keys).set(row.unacked)
        gauges.oldest_open.labels(*keys).set(row.oldest_open_seconds)
        gauges.oldest_unacked.labels(*keys).set(row.oldest_unacked_seconds)
        gauges.halted.labels(*keys).set(row.is_stuck)
        gauges.log_end.labels(*keys).set(row.end)
        gauges.lag.labels(*keys).set(row.lag)
        if row.committed is not None:
            gauges.committed.labels(*keys).set(row.committed)

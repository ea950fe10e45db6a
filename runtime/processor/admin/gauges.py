"""The gauges as they are now, from what a trigger reports of its workers and partitions."""

from collections.abc import Iterable

from headrace.runtime.metrics import Gauges
from headrace.runtime.partitions.status import PartitionStatus
from headrace.runtime.workers.handle import WorkerHandle


def fill_gauges(
    gauges: Gauges,
    labels: tuple[str, ...],
    workers: Iterable[WorkerHandle],
    partitions: Iterable[PartitionStatus],
) -> None:
    """Of one trigger, whose labels' values are `labels`."""
    for worker in workers:
        gauges.worker_restarts.labels(*labels, worker.index).set(worker.restarts)
        gauges.in_flight.labels(*labels, worker.index).set(len(worker.in_flight))
        longest = max((running.seconds for running in worker.running()), default=0.0)
        gauges.running.labels(*labels, worker.index).set(longest)
    for row in partitions:
        keys = (*labels, row.topic, row.partition)
        gauges.unsettled.labels(*keys).set(row.unsettled)
        gauges.oldest_open.labels(*keys).set(row.oldest_open_seconds)
        gauges.halted.labels(*keys).set(row.is_stuck)
        if row.committed is not None:
            gauges.committed.labels(*keys).set(row.committed)

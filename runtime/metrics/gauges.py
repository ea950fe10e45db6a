"""What is, filled in when somebody asks."""

from dataclasses import dataclass

from prometheus_client import Gauge

from headrace.runtime.metrics.declaration import OF_PARTITION, OF_WORKER, TRIGGER_LABELS, declared_in, gauge


@dataclass(frozen=True, slots=True, eq=False)
class Gauges:
    """Filled in by `processor/admin/gauges.py`. Labels aren't bound."""

    in_flight: Gauge = gauge("headrace_records_in_flight", "Records handed to a worker", "records", OF_WORKER)
    running: Gauge = gauge(
        "headrace_running_seconds",
        "How long a worker has been in the record that it is in, of several in the longest; 0 where in none",
        "seconds",
        OF_WORKER,
    )
    ready: Gauge = gauge("headrace_worker_ready", "1 while a worker takes records", "", OF_WORKER)
    resident: Gauge = gauge(
        "headrace_worker_resident_bytes", "Memory of a worker that is in RAM", "bytes", OF_WORKER
    )
    committed: Gauge = gauge("headrace_committed_offset", "What the last commit said", "offset", OF_PARTITION)
    log_end: Gauge = gauge(
        "headrace_log_end_offset",
        "Where the partition ends, as its source has said last: at most 5 s ago, where nothing is fetched",
        "offset",
        OF_PARTITION,
    )
    lag: Gauge = gauge(
        "headrace_lag_records",
        "Offsets between the last commit and the partition's end",
        "offsets",
        OF_PARTITION,
    )
    halted: Gauge = gauge(
        "headrace_partition_halted", "1 while a partition waits for somebody's hand", "", OF_PARTITION
    )
    oldest_open: Gauge = gauge(
        "headrace_oldest_open_seconds",
        "How long a partition's commit has been held up by the same record",
        "seconds",
        OF_PARTITION,
    )
    oldest_unacked: Gauge = gauge(
        "headrace_oldest_unacked_seconds",
        "How long a record has waited for its explicit ack, the longest of all; 0 where none does",
        "seconds",
        OF_PARTITION,
    )
    unacked: Gauge = gauge(
        "headrace_unacked_records", "Records that were handled and wait for an ack", "records", OF_PARTITION
    )
    unsettled: Gauge = gauge(
        "headrace_unsettled_records", "Records fetched and not settled", "records", OF_PARTITION
    )
    buffered: Gauge = gauge(
        "headrace_buffered_bytes",
        "What a trigger holds of its partitions' records, or may get by open requests (maxBufferedBytes)",
        "bytes",
        TRIGGER_LABELS,
    )
    commit_age: Gauge = gauge(
        "headrace_last_commit_age_seconds",
        "Since the last commit that succeeded; where nothing changes, nothing is committed",
        "seconds",
        TRIGGER_LABELS,
    )

    def clear(self) -> None:
        """Forget all samples: partitions leave, and so do theirs."""
        for name, _, _ in declared_in(Gauges):
            getattr(self, name).clear()

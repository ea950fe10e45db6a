"""Gauges of workers and partitions, filled in at a scrape."""

from dataclasses import dataclass

from prometheus_client import Gauge

from headrace.runtime.metrics.declaration import (
    PARTITION_LABELS,
    TRIGGER_LABELS,
    WORKER_LABELS,
    declared_in,
    gauge,
)


@dataclass(frozen=True, slots=True, eq=False)
class Gauges:
    """Gauges whose labels aren't bound: the processor fills them in when it is scraped."""

    in_flight: Gauge = gauge(
        "headrace_records_in_flight", "Records handed to a worker", "records", WORKER_LABELS
    )
    running: Gauge = gauge(
        "headrace_running_seconds",
        "How long a worker has been in the record that it is in, of several in the longest; 0 where in none",
        "seconds",
        WORKER_LABELS,
    )
    ready: Gauge = gauge("headrace_worker_ready", "1 while a worker takes records", "", WORKER_LABELS)
    resident: Gauge = gauge(
        "headrace_worker_resident_bytes", "Memory of a worker that is in RAM", "bytes", WORKER_LABELS
    )
    committed: Gauge = gauge(
        "headrace_committed_offset", "What the last commit said", "offset", PARTITION_LABELS
    )
    log_end: Gauge = gauge(
        "headrace_log_end_offset",
        "Where the partition ends, as its source has said last: at most 5 s ago, where nothing is fetched",
        "offset",
        PARTITION_LABELS,
    )
    lag: Gauge = gauge(
        "headrace_lag_records",
        "Offsets between the last commit and the partition's end",
        "offsets",
        PARTITION_LABELS,
    )
    halted: Gauge = gauge(
        "headrace_partition_halted", "1 while a partition waits for somebody's hand", "", PARTITION_LABELS
    )
    oldest_open: Gauge = gauge(
        "headrace_oldest_open_seconds",
        "How long a partition's commit has been held up by the same record",
        "seconds",
        PARTITION_LABELS,
    )
    oldest_unacked: Gauge = gauge(
        "headrace_oldest_unacked_seconds",
        "How long a record has waited for its explicit ack, the longest of all; 0 where none does",
        "seconds",
        PARTITION_LABELS,
    )
    unacked: Gauge = gauge(
        "headrace_unacked_records",
        "Records that were handled and wait for an ack",
        "records",
        PARTITION_LABELS,
    )
    unsettled: Gauge = gauge(
        "headrace_unsettled_records", "Records fetched and not settled", "records", PARTITION_LABELS
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
        """Drop all samples: those of partitions that have left must not stay."""
        # Filled in anew right after, from what is here now.
        for name, _, _ in declared_in(Gauges):
            getattr(self, name).clear()

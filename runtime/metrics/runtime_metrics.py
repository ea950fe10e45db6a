"""Metrics of the runtime: one registry for each processor, and what each of its triggers counts there."""

import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from importlib.metadata import version
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, Summary
from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from headrace.runtime.metrics.custom_metrics import CustomMetrics, Owner
from headrace.runtime.metrics.declaration import (
    BUCKETS,
    LONG_BUCKETS,
    TRIGGER_LABELS,
    WORKER_LABELS,
    BufferedHistogram,
    Metric,
    bound_metric,
    counter,
    declared_in,
    histogram,
    labelled_counter,
    nuclio_sum,
)
from headrace.runtime.metrics.gauges import Gauges
from headrace.runtime.metrics.history import History

_HANDLED = labelled_counter(
    "result", "nuclio_processor_handled_events", "Records whose handler ended, by result", "records"
)
_DURATIONS = Metric(
    "summary",
    "nuclio_processor_handled_events_duration_milliseconds",
    "Time spent in handlers, and of how many records",
    "milliseconds",
    WORKER_LABELS,
)
_GIVEN_UP = labelled_counter(
    "result",
    "headrace_records_given_up",
    "Records settled without success: moved to the dead letters, or skipped",
    "records",
)
_PRODUCED = labelled_counter(
    "result",
    "headrace_messages_produced",
    "Messages of handlers that were written, or could not be",
    "messages",
)
_COMMITS = labelled_counter("result", "headrace_commits", "Offset commits, by result", "commits")
_ALLOCATIONS = labelled_counter(
    "result",
    "nuclio_processor_worker_allocation",
    "Runs, batches or requests that waited for a worker: less than a millisecond, longer, or in vain",
    "allocations",
)
_RESTARTS = labelled_counter(
    "reason", "headrace_worker_restarts", "Processes that workers have lost", "processes"
)
RestartReason = Literal["died", "timeout", "memory", "rebalance", "lease", "refused", "silent", "reload"]
"""Cause of the loss of a process: it died, or was killed.

At a limit (timeout, memory), for partitions that leave (rebalance), at the end of the lease, for what it said
(refused) or didn't begin (silent), or for new code (reload).
"""

_IMMEDIATE_SECONDS = 0.001


@dataclass(slots=True, eq=False)
class TriggerMetrics:
    """Metrics of one trigger, its dispatcher and its committer, with the trigger's labels bound."""

    metrics: InitVar["MetricRegistry"]
    replica: InitVar[str]
    function: str
    kind: InitVar[str]
    trigger: InitVar[str]
    namespace: InitVar[str] = "nuclio"
    project: InitVar[str] = "default"
    labels: tuple[str, ...] = field(init=False)
    """Values of TRIGGER_LABELS."""
    custom: CustomMetrics = field(init=False)
    """Custom metrics of its handler, which are shown with the labels `owner`."""
    owner: Owner = field(init=False)

    history: History = field(init=False, default_factory=History)
    _handler_times: BufferedHistogram = field(init=False)
    _latencies: BufferedHistogram = field(init=False)
    # Plain numbers, which `flush` passes on: the client takes a lock for each that it is told.
    _allocated: list[int] = field(init=False, default_factory=lambda: [0, 0])
    """Allocations at once, and later."""
    _waited_seconds: float = field(init=False, default=0.0)
    _available_share: float = field(init=False, default=0.0)

    handled_success: Counter = bound_metric(_HANDLED, "success")
    handled_failure: Counter = bound_metric(_HANDLED, "failure")
    _of_workers: dict[int, Any] = field(init=False, default_factory=dict)
    handler_seconds: Histogram = histogram(
        "headrace_handler_duration_seconds",
        "Time in the handler, for each record, in a batch its share; of quick ones that a worker was given "
        "together the slowest counts by itself, the others with their mean",
    )
    latency_seconds: Histogram = histogram(
        "headrace_end_to_end_seconds",
        "From a record's timestamp to the end of its handler; records that a worker was given together count "
        "with the first one's timestamp",
        LONG_BUCKETS,
    )
    retries: Counter = counter(
        "headrace_retries", "Records delivered once more, after a failed attempt", "records"
    )
    timeouts: Counter = counter("headrace_timeouts", "Handlers that ran past eventTimeout", "records")
    allocated_at_once: Counter = bound_metric(_ALLOCATIONS, "success_immediate")
    allocated_later: Counter = bound_metric(_ALLOCATIONS, "success_after_wait")
    not_allocated: Counter = bound_metric(_ALLOCATIONS, "error_timeout")
    allocations: Any = nuclio_sum(
        "nuclio_processor_worker_allocation_count", "All of those, as Nuclio counts them", "allocations"
    )
    allocation_waits: Any = nuclio_sum(
        "nuclio_processor_worker_allocation_wait_duration_milliseconds_sum",
        "How long those waited that got a worker",
        "milliseconds",
    )
    available_percentage: Any = nuclio_sum(
        "nuclio_processor_worker_allocation_workers_available_percentage",
        "The sum, over all allocations, of the part of workers that were idle",
        "percent",
    )
    restarts_died: Counter = bound_metric(_RESTARTS, "died")
    restarts_timeout: Counter = bound_metric(_RESTARTS, "timeout")
    restarts_memory: Counter = bound_metric(_RESTARTS, "memory")
    restarts_rebalance: Counter = bound_metric(_RESTARTS, "rebalance")
    restarts_lease: Counter = bound_metric(_RESTARTS, "lease")
    restarts_refused: Counter = bound_metric(_RESTARTS, "refused")
    restarts_silent: Counter = bound_metric(_RESTARTS, "silent")
    restarts_reload: Counter = bound_metric(_RESTARTS, "reload")
    # Not bound: it has a child for each worker, which `on_handled` makes.
    durations: Summary = field(init=False, metadata={"metric": _DURATIONS, "values": None})
    workers_killed: Counter = counter(
        "headrace_workers_killed",
        "Workers killed because a handler outlasted its wait at a rebalance or a stop",
        "processes",
    )
    protocol_violations: Counter = counter(
        "headrace_workers_refused",
        "Workers killed because they said what they can't know: something writes to their socket or memory",
        "processes",
    )
    dropped_samples: Counter = counter(
        "headrace_handler_samples_dropped",
        "What handlers counted by metrics of their own in vain: beyond a bound, or by another one's name",
        "samples",
    )
    long_records: Counter = counter(
        "headrace_long_records", "Records that ran longer than maxProcessingTime", "records"
    )
    rebalances: Counter = counter(
        "headrace_rebalances", "Assignments that this replica was given", "assignments"
    )
    rebalance_seconds: Histogram = histogram(
        "headrace_rebalance_duration_seconds",
        "From the first partition that is given back to the first record that may be handed out again",
        LONG_BUCKETS,
    )
    stop_seconds: Histogram = histogram(
        "headrace_partition_stop_seconds",
        "How long a partition stood that this replica gave back in a rebalance, and was given again",
        LONG_BUCKETS,
    )
    refused: Counter = counter(
        "headrace_requests_refused",
        "Requests that no worker was free for, or that came amid a stop",
        "requests",
    )
    firings_skipped: Counter = counter(
        "headrace_firings_skipped",
        "Firings of a cron trigger that came while as many as may run at a time did",
        "firings",
    )
    moved: Counter = bound_metric(_GIVEN_UP, "moved")
    skipped: Counter = bound_metric(_GIVEN_UP, "skipped")
    not_moved: Counter = counter(
        "headrace_dead_letter_failures",
        "Dead letters that could not be written; each is tried again",
        "tries",
    )
    acks: Counter = counter("headrace_explicit_acks", "Explicit acks that were accepted", "acks")
    failed_joins: Counter = counter(
        "headrace_failed_joins",
        "Joins of the group that failed with all their retries (rebalanceRetryMax)",
        "joins",
    )
    produced: Counter = bound_metric(_PRODUCED, "success")
    not_produced: Counter = bound_metric(_PRODUCED, "failure")
    commits_done: Counter = bound_metric(_COMMITS, "success")
    commits_failed: Counter = bound_metric(_COMMITS, "failure")
    commit_seconds: Histogram = histogram(
        "headrace_commit_duration_seconds", "How long a commit took that the source has answered"
    )
    offset_resets: Counter = counter(
        "headrace_offset_resets",
        "Partitions read from elsewhere, for their position was out of range, or their log cut or made anew",
        "partitions",
    )
    deleted_unread: Counter = counter(
        "headrace_deleted_unread",
        "Offsets that the broker had deleted (retention) before they were fetched",
        "offsets",
    )

    def __post_init__(  # noqa: PLR0913, PLR0917  # the values of labels
        self, metrics: "MetricRegistry", replica: str, kind: str, trigger: str, namespace: str, project: str
    ) -> None:
        self.labels = (replica, namespace, project, self.function, kind, trigger)
        self.custom = metrics.custom
        self.owner = tuple(zip(TRIGGER_LABELS, self.labels, strict=True))
        # Children are made now, so that a scrape shows each of them from the start, at 0.
        for name, metric, values in declared_in(TriggerMetrics):
            family = metrics.family(metric)
            setattr(self, name, family if values is None else family.labels(*self.labels, *values))
        self._handler_times = BufferedHistogram(self.handler_seconds, BUCKETS)
        self._latencies = BufferedHistogram(self.latency_seconds, LONG_BUCKETS)

    @property
    def named(self) -> tuple[str, str]:
        """Name of the function, and its namespace."""
        return self.function, self.labels[TRIGGER_LABELS.index("namespace")]

    def on_allocated(self, waited_seconds: float, available_share: float) -> None:
        """Count a worker that got something, while that share of all workers was idle."""
        self._allocated[waited_seconds >= _IMMEDIATE_SECONDS] += 1
        self._waited_seconds += waited_seconds
        self._available_share += available_share

    @property
    def handled(self) -> tuple[float, float]:
        """Numbers of records that have succeeded, and failed."""
        # The client offers no way to read a counter.
        counters: Any = self.handled_success, self.handled_failure
        succeeded, failed = (counter._value.get() for counter in counters)  # noqa: SLF001  # no other way
        return succeeded, failed

    def flush(self) -> None:
        """Pass on to the metrics client what was counted for runs of records: before a scrape."""
        self._handler_times.flush()
        self._latencies.flush()
        self.allocated_at_once.inc(self._allocated[0])
        self.allocated_later.inc(self._allocated[1])
        self.allocations.inc(sum(self._allocated))
        self.allocation_waits.inc(self._waited_seconds * 1e3)
        self.available_percentage.inc(self._available_share * 100)
        self._allocated, self._waited_seconds, self._available_share = [0, 0], 0.0, 0.0

    def on_not_allocated(self) -> None:
        """Count a request for which no worker was free in time."""
        self.not_allocated.inc()
        self.allocations.inc()

    def on_restart(self, worker_index: int, reason: RestartReason) -> None:
        """Count a process that a worker has lost."""
        self.history.note("restart", f"worker {worker_index}: {reason}")
        counted: Counter = getattr(self, f"restarts_{reason}")
        counted.inc()

    def on_latency(self, timestamp_ms: int | None, count: int) -> None:
        """Count records that were handled together. `timestamp_ms`: of the first; None or below 0: none."""
        if timestamp_ms is not None and timestamp_ms >= 0:
            # The clock of whoever wrote the record may be ahead of this machine's.
            self._latencies.add(max(0.0, time.time() - timestamp_ms / 1e3), count)

    def on_handled(self, worker_index: int, count: int, handler_ns: int, each_ns: Sequence[int] = ()) -> None:
        """Count records of a worker, and the time that they took; `each_ns`: of some, each one's own."""
        # A worker measures a run as a whole, and of it the slowest record: the others count with their mean.
        for took_ns in each_ns:
            self._handler_times.add(took_ns / 1e9)
        if others := count - len(each_ns):
            self._handler_times.add(max(0, handler_ns - sum(each_ns)) / others / 1e9, others)
        # Kept: to find a child by its labels takes longer than to add to it.
        of_worker = self._of_workers.get(worker_index)
        if of_worker is None:
            of_worker = self._of_workers[worker_index] = self.durations.labels(*self.labels, worker_index)
        # A Summary takes one observation at a time; this is one for a run.
        of_worker._count.inc(count)  # noqa: SLF001
        of_worker._sum.inc(handler_ns / 1e6)  # noqa: SLF001


BUILD_INFO = Metric(
    "gauge", "headrace_build_info", "1, with what runs as labels", "", ("replica", "version", "python")
)
# Several fields are children of one metric, which is here once.
METRICS = tuple(
    dict.fromkeys(
        [metric for model in (TriggerMetrics, Gauges) for _, metric, _ in declared_in(model)] + [BUILD_INFO]
    )
)


class MetricRegistry:
    """Registry of one processor: all of METRICS, custom metrics, and `process_*` of the processor itself."""

    def __init__(self, replica: str = "") -> None:
        self.registry = CollectorRegistry()
        # All of them now: a scrape lists what has no samples yet as well.
        self._families = {metric: metric.register(self.registry) for metric in METRICS}
        self.gauges = Gauges(**{name: self._families[metric] for name, metric, _ in declared_in(Gauges)})
        self.family(BUILD_INFO).labels(replica, version("headrace"), platform.python_version()).set(1)
        self.registry.register(_Process(replica))
        self.custom = CustomMetrics()
        self.registry.register(self.custom)

    def family(self, metric: Metric) -> Any:
        """Return the metric's Counter, Gauge, Histogram or Summary; its `labels(...)` makes children."""
        return self._families[metric]


class _Process(Collector):
    """Metrics `process_*` of the client, with the label that tells replicas apart."""

    def __init__(self, replica: str) -> None:
        # In no registry, which would publish its samples without the label.
        self._collector = ProcessCollector(registry=None)
        self._labels = {"replica": replica}

    def collect(self) -> Iterator[Family]:
        """Yield the families, for a scrape."""
        for family in self._collector.collect():
            family.samples = [sample._replace(labels=self._labels) for sample in family.samples]
            yield family

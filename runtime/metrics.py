"""Every metric that Headrace publishes, in one list; Nuclio's names where they exist."""

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics

_TRIGGER = ("replica", "function", "trigger_kind", "trigger_id")
_WORKER = (*_TRIGGER, "worker_index")
_PARTITION = (*_TRIGGER, "topic", "partition")


disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per counter, of no use here


class Metrics:
    """The metrics of one processor. A counter's name gets `_total` when it is shown."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        # What happened
        self.handled = Counter(
            "nuclio_processor_handled_events",
            "Records whose handler ended, by result",
            (*_TRIGGER, "result"),
            registry=registry,
        )
        self.handler_ms = Counter(
            "nuclio_processor_worker_handled_events_duration_milliseconds_sum",
            "Time spent in handlers",
            _TRIGGER,
            registry=registry,
        )
        self.workers_killed = Counter(
            "headrace_workers_killed",
            "Workers killed because a handler outlasted its wait at a rebalance or a stop",
            _TRIGGER,
            registry=registry,
        )
        self.long_records = Counter(
            "headrace_long_records",
            "Records that ran longer than maxProcessingTime",
            _TRIGGER,
            registry=registry,
        )
        self.rebalances = Counter(
            "headrace_rebalances", "Assignments that this replica was given", _TRIGGER, registry=registry
        )
        self.given_up = Counter(
            "headrace_records_given_up",
            "Records settled without success: moved to the dead letters, or skipped",
            (*_TRIGGER, "result"),
            registry=registry,
        )
        self.acks = Counter(
            "headrace_explicit_acks", "Explicit acks that were accepted", _TRIGGER, registry=registry
        )
        self.failed_joins = Counter(
            "headrace_failed_joins",
            "Joins of the group that failed with all their retries (rebalanceRetryMax)",
            _TRIGGER,
            registry=registry,
        )
        self.commits = Counter(
            "headrace_commits", "Offset commits, by result", (*_TRIGGER, "result"), registry=registry
        )
        self.offset_resets = Counter(
            "headrace_offset_resets",
            "Partitions whose position was out of range and went to the earliest record",
            _TRIGGER,
            registry=registry,
        )
        # What is, read when asked for
        self.worker_restarts = Gauge(
            "headrace_worker_restarts", "Processes that a worker has lost", _WORKER, registry=registry
        )
        self.in_flight = Gauge(
            "headrace_records_in_flight", "Records handed to a worker", _WORKER, registry=registry
        )
        self.committed = Gauge(
            "headrace_committed_offset", "What the last commit said", _PARTITION, registry=registry
        )
        self.halted = Gauge(
            "headrace_partition_halted",
            "1 while a partition waits for somebody's hand",
            _PARTITION,
            registry=registry,
        )
        self.unsettled = Gauge(
            "headrace_unsettled_records", "Records fetched and not settled", _PARTITION, registry=registry
        )


class TriggerMetrics:
    """The counters of one trigger, labels bound."""

    def __init__(self, metrics: Metrics, replica: str, function: str, kind: str, trigger: str) -> None:
        self.labels = (replica, function, kind, trigger)
        self.function = function
        self.handled_success = metrics.handled.labels(*self.labels, "success")
        self.handled_failure = metrics.handled.labels(*self.labels, "failure")
        self.handler_ms = metrics.handler_ms.labels(*self.labels)
        self.workers_killed = metrics.workers_killed.labels(*self.labels)
        self.long_records = metrics.long_records.labels(*self.labels)
        self.rebalances = metrics.rebalances.labels(*self.labels)
        self.moved = metrics.given_up.labels(*self.labels, "moved")
        self.skipped = metrics.given_up.labels(*self.labels, "skipped")
        self.acks = metrics.acks.labels(*self.labels)
        self.failed_joins = metrics.failed_joins.labels(*self.labels)
        self.commits_done = metrics.commits.labels(*self.labels, "success")
        self.commits_failed = metrics.commits.labels(*self.labels, "failure")
        self.offset_resets = metrics.offset_resets.labels(*self.labels)

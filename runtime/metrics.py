"""Every metric that Headrace publishes, each declared once; Nuclio's names where they exist.

What code increments, what a scrape shows and docs/operate/metrics.md are made of these declarations.
"""

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field, fields
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary, disable_created_metrics

LABELS = {
    "replica": "The replica's name; empty where there is only one.",
    "namespace": "`metadata.namespace` of the function.",
    "project": "Its label `nuclio.io/project-name`.",
    "function": "`metadata.name` of the function.",
    "trigger_kind": "`kind` of the trigger.",
    "trigger_id": "The trigger's name in `spec.triggers`.",
    "worker_index": "The worker's number, from 0; a new process keeps it.",
    "topic": "Of the partition.",
    "partition": "Its number.",
    "result": "What became of it.",
}
TRIGGER_LABELS = ("replica", "namespace", "project", "function", "trigger_kind", "trigger_id")
_WORKER = (*TRIGGER_LABELS, "worker_index")
_PARTITION = (*TRIGGER_LABELS, "topic", "partition")

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per counter, of no use here


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `unit` is what it counts or measures, "" where it is a number without one."""

    kind: Literal["counter", "gauge", "summary"]
    name: str
    about: str
    unit: str
    labels: tuple[str, ...]

    @property
    def shown_name(self) -> str:
        """As a scrape says it."""
        return {"counter": f"{self.name}_total", "summary": f"{self.name}_sum` and `_count"}.get(
            self.kind, self.name
        )

    def register(self, registry: CollectorRegistry) -> Any:
        """Its Counter, Gauge or Summary."""
        made = {"counter": Counter, "gauge": Gauge, "summary": Summary}[self.kind]
        return made(self.name, self.about, self.labels, registry=registry)


def _bound(metric: Metric, *values: str) -> Any:
    """A field: the metric's child for one trigger; `values` are of the labels after the trigger's."""
    return field(init=False, metadata={"metric": metric, "values": values})


def _counter(name: str, about: str, unit: str) -> Any:
    return _bound(Metric("counter", name, about, unit, TRIGGER_LABELS))


def _by_result(name: str, about: str, unit: str) -> Metric:
    return Metric("counter", name, about, unit, (*TRIGGER_LABELS, "result"))


def _gauge(name: str, about: str, unit: str, labels: tuple[str, ...]) -> Any:
    return field(metadata={"metric": Metric("gauge", name, about, unit, labels), "values": ()})


_HANDLED = _by_result("nuclio_processor_handled_events", "Records whose handler ended, by result", "records")
_DURATIONS = Metric(
    "summary",
    "nuclio_processor_handled_events_duration_milliseconds",
    "Time spent in handlers, and of how many records",
    "milliseconds",
    _WORKER,
)
_GIVEN_UP = _by_result(
    "headrace_records_given_up",
    "Records settled without success: moved to the dead letters, or skipped",
    "records",
)
_PRODUCED = _by_result(
    "headrace_messages_produced", "Messages of handlers that were written, or could not be", "messages"
)
_COMMITS = _by_result("headrace_commits", "Offset commits, by result", "commits")


@dataclass(slots=True, eq=False)
class TriggerMetrics:
    """What a trigger, its dispatcher and its committer count. Each counter is one trigger's, labels bound."""

    metrics: InitVar["Metrics"]
    replica: InitVar[str]
    function: str
    kind: InitVar[str]
    trigger: InitVar[str]
    namespace: InitVar[str] = "nuclio"
    project: InitVar[str] = "default"
    labels: tuple[str, ...] = field(init=False)
    """The values of TRIGGER_LABELS."""

    handled_success: Counter = _bound(_HANDLED, "success")
    handled_failure: Counter = _bound(_HANDLED, "failure")
    _of_workers: dict[int, Any] = field(init=False, default_factory=dict)
    durations: Summary = field(init=False, metadata={"metric": _DURATIONS, "values": None})
    workers_killed: Counter = _counter(
        "headrace_workers_killed",
        "Workers killed because a handler outlasted its wait at a rebalance or a stop",
        "processes",
    )
    nonsense: Counter = _counter(
        "headrace_workers_refused",
        "Workers killed because they said what they can't know: something writes to their socket or memory",
        "processes",
    )
    long_records: Counter = _counter(
        "headrace_long_records", "Records that ran longer than maxProcessingTime", "records"
    )
    rebalances: Counter = _counter(
        "headrace_rebalances", "Assignments that this replica was given", "assignments"
    )
    refused: Counter = _counter(
        "headrace_requests_refused",
        "Requests that no worker was free for, or that came amid a stop",
        "requests",
    )
    firings_skipped: Counter = _counter(
        "headrace_firings_skipped",
        "Firings of a cron trigger that came while as many as may run at a time did",
        "firings",
    )
    moved: Counter = _bound(_GIVEN_UP, "moved")
    skipped: Counter = _bound(_GIVEN_UP, "skipped")
    acks: Counter = _counter("headrace_explicit_acks", "Explicit acks that were accepted", "acks")
    failed_joins: Counter = _counter(
        "headrace_failed_joins",
        "Joins of the group that failed with all their retries (rebalanceRetryMax)",
        "joins",
    )
    produced: Counter = _bound(_PRODUCED, "success")
    not_produced: Counter = _bound(_PRODUCED, "failure")
    commits_done: Counter = _bound(_COMMITS, "success")
    commits_failed: Counter = _bound(_COMMITS, "failure")
    offset_resets: Counter = _counter(
        "headrace_offset_resets",
        "Partitions read from elsewhere, for their position was out of range, or their log cut or made anew",
        "partitions",
    )
    deleted_unread: Counter = _counter(
        "headrace_deleted_unread",
        "Offsets that the broker had deleted (retention) before they were fetched",
        "offsets",
    )

    def __post_init__(  # noqa: PLR0913, PLR0917  # the values of labels
        self, metrics: "Metrics", replica: str, kind: str, trigger: str, namespace: str, project: str
    ) -> None:
        self.labels = (replica, namespace, project, self.function, kind, trigger)
        for name, metric, values in declared_in(TriggerMetrics):
            family = metrics.family(metric)
            setattr(self, name, family if values is None else family.labels(*self.labels, *values))

    @property
    def named(self) -> tuple[str, str]:
        """The function's name and its namespace."""
        return self.function, self.labels[TRIGGER_LABELS.index("namespace")]

    def on_handled(self, worker_index: int, count: int, handler_ns: int) -> None:
        """So many records of a worker took so long. A Summary counts one by one, this is for a whole run."""
        of_worker = self._of_workers.get(worker_index)
        if of_worker is None:
            of_worker = self._of_workers[worker_index] = self.durations.labels(*self.labels, worker_index)
        of_worker._count.inc(count)  # noqa: SLF001
        of_worker._sum.inc(handler_ns / 1e6)  # noqa: SLF001


@dataclass(frozen=True, slots=True, eq=False)
class Gauges:
    """What is, filled in when somebody asks (`processor/admin/gauges.py`). Labels aren't bound."""

    worker_restarts: Gauge = _gauge(
        "headrace_worker_restarts", "Processes that a worker has lost", "processes", _WORKER
    )
    in_flight: Gauge = _gauge("headrace_records_in_flight", "Records handed to a worker", "records", _WORKER)
    running: Gauge = _gauge(
        "headrace_running_seconds",
        "How long a worker has been in the record that it is in, of several in the longest; 0 where in none",
        "seconds",
        _WORKER,
    )
    committed: Gauge = _gauge("headrace_committed_offset", "What the last commit said", "offset", _PARTITION)
    halted: Gauge = _gauge(
        "headrace_partition_halted", "1 while a partition waits for somebody's hand", "", _PARTITION
    )
    oldest_open: Gauge = _gauge(
        "headrace_oldest_open_seconds",
        "How long a partition's commit has been held up by the same record",
        "seconds",
        _PARTITION,
    )
    unsettled: Gauge = _gauge(
        "headrace_unsettled_records", "Records fetched and not settled", "records", _PARTITION
    )

    def clear(self) -> None:
        """Forget all samples: partitions leave, and so do theirs."""
        for name, _, _ in declared_in(Gauges):
            getattr(self, name).clear()


def declared_in(model: type[TriggerMetrics] | type[Gauges]) -> Iterator[tuple[str, Metric, tuple[str, ...]]]:
    """Of each metric's field: its name, the metric, and the values of the labels that are its own."""
    for found in fields(model):
        if metric := found.metadata.get("metric"):
            yield found.name, metric, found.metadata["values"]


METRICS = tuple(
    dict.fromkeys(metric for model in (TriggerMetrics, Gauges) for _, metric, _ in declared_in(model))
)


class Metrics:
    """The metrics of one processor: all of METRICS, in one registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._families = {metric: metric.register(self.registry) for metric in METRICS}
        self.gauges = Gauges(**{name: self._families[metric] for name, metric, _ in declared_in(Gauges)})

    def family(self, metric: Metric) -> Any:
        """Its Counter or Gauge, from which `labels(...)` makes children."""
        return self._families[metric]

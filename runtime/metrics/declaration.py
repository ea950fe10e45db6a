"""Declarations of metrics: what code counts, what a scrape shows and the page of metrics are made of them."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, disable_created_metrics

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
    "reason": "Why it was.",
    "version": "Headrace's.",
    "python": "Python's version.",
}
TRIGGER_LABELS = ("replica", "namespace", "project", "function", "trigger_kind", "trigger_id")
WORKER_LABELS = (*TRIGGER_LABELS, "worker_index")
PARTITION_LABELS = (*TRIGGER_LABELS, "topic", "partition")

# Seconds. From a handler that only counts to one that waits for others; `inf` follows by itself.
BUCKETS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
)
# From 10 ms to half an hour: for rebalances and what waits for them.
LONG_BUCKETS = (*BUCKETS[6:], 60, 300, 1800)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per counter, of no use here


@dataclass(frozen=True, slots=True)
class Metric:
    """Declaration of one metric. `unit`: what it counts or measures; empty for a number without one."""

    kind: Literal["counter", "gauge", "summary", "histogram"]
    name: str
    about: str
    unit: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, but for infinity."""

    @property
    def shown_name(self) -> str:
        """Names of its samples in a scrape, as Markdown between backticks."""
        # The client adds these endings by itself, so a declaration has none of them.
        shown = {
            "counter": f"{self.name}_total",
            "summary": f"{self.name}_sum` and `_count",
            "histogram": f"{self.name}_bucket`, `_sum` and `_count",
        }
        return shown.get(self.kind, self.name)

    def register(self, registry: CollectorRegistry) -> Any:
        """Return its Counter, Gauge, Summary or Histogram, registered."""
        if self.kind == "histogram":
            return Histogram(self.name, self.about, self.labels, registry=registry, buckets=self.buckets)
        made = {"counter": Counter, "gauge": Gauge, "summary": Summary}[self.kind]
        return made(self.name, self.about, self.labels, registry=registry)


def bound_metric(metric: Metric, *values: str) -> Any:
    """Declare a field: the metric's child for one trigger. `values`: of the labels after the trigger's."""
    return field(init=False, metadata={"metric": metric, "values": values})


def counter(name: str, about: str, unit: str) -> Any:
    """Declare a field: a counter with the trigger's labels alone."""
    return bound_metric(Metric("counter", name, about, unit, TRIGGER_LABELS))


def nuclio_sum(name: str, about: str, unit: str) -> Any:
    """Declare a field: a sum that only rises, under a name of Nuclio's that no counter may have."""
    # As a counter it would be shown with `_total` behind its name, which Nuclio's hasn't.
    return bound_metric(Metric("gauge", name, about, unit, TRIGGER_LABELS))


def labelled_counter(label: str, name: str, about: str, unit: str) -> Metric:
    """Return a counter with one label beside the trigger's."""
    return Metric("counter", name, about, unit, (*TRIGGER_LABELS, label))


def histogram(name: str, about: str, buckets: tuple[float, ...] = BUCKETS) -> Any:
    """Declare a field: a histogram of seconds, with the trigger's labels alone."""
    return bound_metric(Metric("histogram", name, about, "seconds", TRIGGER_LABELS, buckets))


def gauge(name: str, about: str, unit: str, labels: tuple[str, ...]) -> Any:
    """Declare a field: the gauge itself, without values of labels."""
    return field(metadata={"metric": Metric("gauge", name, about, unit, labels), "values": ()})


def declared_in(model: type) -> Iterator[tuple[str, Metric, tuple[str, ...]]]:
    """Yield each metric's field: its name, the metric, and the values of the labels that are its own."""
    for found in fields(model):
        if metric := found.metadata.get("metric"):
            yield found.name, metric, found.metadata["values"]


class BufferedHistogram:
    """Counts for a histogram, kept until `flush`, which comes before a scrape.

    A Histogram takes one observation at a time, under two locks: too slow for thousands of records a second.
    """

    __slots__ = ("_bounds", "_counts", "_histogram", "_seconds")

    def __init__(self, histogram: Any, buckets: tuple[float, ...]) -> None:
        """`histogram`: with its labels bound. `buckets`: those that it was made with."""
        self._histogram = histogram
        self._bounds = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._seconds = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """Add `count` observations of the same time."""
        self._seconds += seconds * count
        self._counts[bisect_left(self._bounds, seconds)] += count

    def flush(self) -> None:
        """Add to the histogram what was kept."""
        # The client has no way to add many observations at once.
        self._histogram._sum.inc(self._seconds)  # noqa: SLF001
        # Each bucket by itself: the client adds up those below it at the scrape.
        for bucket, count in zip(self._histogram._buckets, self._counts, strict=True):  # noqa: SLF001
            bucket.inc(count)
        self._counts = [0] * len(self._counts)
        self._seconds = 0.0

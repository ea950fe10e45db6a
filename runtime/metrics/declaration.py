"""How a metric is declared. What code counts, what a scrape shows and the page of metrics are made of it."""

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
LONG_BUCKETS = (*BUCKETS[6:], 60, 300, 1800)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per counter, of no use here


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `unit` is what it counts or measures, "" where it is a number without one."""

    kind: Literal["counter", "gauge", "summary", "histogram"]
    name: str
    about: str
    unit: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    """Of a histogram."""

    @property
    def shown_name(self) -> str:
        """As a scrape says it."""
        shown = {
            "counter": f"{self.name}_total",
            "summary": f"{self.name}_sum` and `_count",
            "histogram": f"{self.name}_bucket`, `_sum` and `_count",
        }
        return shown.get(self.kind, self.name)

    def register(self, registry: CollectorRegistry) -> Any:
        """Its Counter, Gauge, Summary or Histogram."""
        if self.kind == "histogram":
            return Histogram(self.name, self.about, self.labels, registry=registry, buckets=self.buckets)
        made = {"counter": Counter, "gauge": Gauge, "summary": Summary}[self.kind]
        return made(self.name, self.about, self.labels, registry=registry)


def bound(metric: Metric, *values: str) -> Any:
    """A field: the metric's child for one trigger; `values` are of the labels after the trigger's."""
    return field(init=False, metadata={"metric": metric, "values": values})


def counter(name: str, about: str, unit: str) -> Any:
    """A field: a counter with the trigger's labels alone."""
    return bound(Metric("counter", name, about, unit, TRIGGER_LABELS))


def nuclio_sum(name: str, about: str, unit: str) -> Any:
    """A field: what only rises, under a name of Nuclio's that no counter may have."""
    return bound(Metric("gauge", name, about, unit, TRIGGER_LABELS))


def by(label: str, name: str, about: str, unit: str) -> Metric:
    """A counter with one label more."""
    return Metric("counter", name, about, unit, (*TRIGGER_LABELS, label))


def histogram(name: str, about: str, buckets: tuple[float, ...] = BUCKETS) -> Any:
    """A field: seconds."""
    return bound(Metric("histogram", name, about, "seconds", TRIGGER_LABELS, buckets))


def gauge(name: str, about: str, unit: str, labels: tuple[str, ...]) -> Any:
    """A field: the metric itself, without values of labels."""
    return field(metadata={"metric": Metric("gauge", name, about, unit, labels), "values": ()})


def declared_in(model: type) -> Iterator[tuple[str, Metric, tuple[str, ...]]]:
    """Of each metric's field: its name, the metric, and the values of the labels that are its own."""
    for found in fields(model):
        if metric := found.metadata.get("metric"):
            yield found.name, metric, found.metadata["values"]


class BufferedHistogram:
    """What a histogram is to be told: for runs of records, thousands a second. `flush` before a scrape.

    A Histogram counts one by one, under two locks.
    """

    __slots__ = ("_bounds", "_counts", "_histogram", "_seconds")

    def __init__(self, histogram: Any, buckets: tuple[float, ...]) -> None:
        """`histogram`: with its labels bound."""
        self._histogram = histogram
        self._bounds = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._seconds = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """`count` times the same."""
        self._seconds += seconds * count
        self._counts[bisect_left(self._bounds, seconds)] += count

    def flush(self) -> None:
        """Tell the histogram."""
        self._histogram._sum.inc(self._seconds)  # noqa: SLF001
        for bucket, count in zip(self._histogram._buckets, self._counts, strict=True):  # noqa: SLF001
            bucket.inc(count)
        self._counts = [0] * len(self._counts)
        self._seconds = 0.0

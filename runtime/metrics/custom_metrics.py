"""Custom metrics of handlers, added up in the processor: published beside the runtime's."""

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from headrace.runtime.metrics.custom_metric import (
    MAX_LABEL_SETS,
    MAX_METRICS,
    MAX_SERIES,
    CustomMetric,
    CustomSample,
)

logger = logging.getLogger(__name__)

Owner = tuple[tuple[str, str], ...]
"""Labels, as pairs of name and value, that all samples of a trigger have."""


@dataclass(slots=True)
class _Series:
    value: float = 0.0
    counts: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Published:
    """A metric and its series. Gauges are kept by worker, and go with its process; the rest stays."""

    metric: CustomMetric
    series: dict[tuple[Owner, tuple[str, ...]], _Series] = field(default_factory=dict)
    set_counts: dict[Owner, int] = field(default_factory=dict)


class CustomMetrics(Collector):
    """Custom metrics of all functions of a replica. The first declaration of a name counts, no other.

    Read by a scrape on a thread of its own, while the event loop adds to it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series_count = 0
        self._published: dict[str, _Published] = {}
        self._by_sample_name: dict[str, CustomMetric] = {}
        self._warned: set[tuple[str, str]] = set()

    def add(
        self, owner: Owner, worker_index: int, metric: CustomMetric, samples: Sequence[CustomSample]
    ) -> int:
        """Add samples of a worker of the trigger `owner`. Return how many of them aren't published."""
        with self._lock:
            published = self._find_or_declare(metric)
            if published is None:
                return len(samples)
            # Two workers set a gauge to different values, which can't be added: each has its own series.
            if metric.kind == "gauge":
                owner = (*owner, ("worker_index", str(worker_index)))
            return sum(not self._add(published, owner, sample) for sample in samples)

    def _add(self, published: _Published, owner: Owner, sample: CustomSample) -> bool:
        series = self._find_or_add_series(published, owner, sample.labels)
        if series is not None:
            metric = published.metric
            series.value = sample.value if metric.kind == "gauge" else series.value + sample.value
            # Counters and histograms come as differences: nothing goes back when a worker ends.
            counts = series.counts or [0] * len(sample.counts)
            series.counts = [a + b for a, b in zip(counts, sample.counts, strict=True)]
        return series is not None

    def forget_worker(self, owner: Owner, worker_index: int) -> None:
        """Drop the gauges of a worker whose process is gone."""
        gone = (*owner, ("worker_index", str(worker_index)))
        with self._lock:
            for published in self._published.values():
                # Only gauges have an owner with a worker's number, so nothing else goes.
                if size := published.set_counts.pop(gone, 0):
                    self._series_count -= size * published.metric.series_count
                    published.series = {key: it for key, it in published.series.items() if key[0] != gone}

    def collect(self) -> Iterator[Family]:
        """Yield all families, for a scrape, on any thread.

        Locked for one metric at a time: the event loop, which adds samples, never waits for long.
        """
        with self._lock:
            # A copy: a handler may declare another metric between two of these.
            all_published = list(self._published.values())
        for published in all_published:
            metric = published.metric
            family = Family(metric.name, metric.about, metric.kind)
            with self._lock:
                # The lists of counts need no copy: `_add` puts new ones in their place, and changes none.
                shown = [(key, series.value, series.counts) for key, series in published.series.items()]
            for (owner, values), value, counts in shown:
                labels = {**dict(owner), **dict(zip(metric.labels, values, strict=True))}
                _add_samples(family, metric, labels, value, counts)
            yield family

    def _find_or_declare(self, metric: CustomMetric) -> _Published | None:
        published = self._published.get(metric.name)
        if published is not None and published.metric == metric:
            return published
        # Two metrics may have different names, and samples of the same: `a_count` may be of a histogram `a`.
        other = next((it for name in metric.shown_names if (it := self._by_sample_name.get(name))), None)
        if other is not None:
            self._warn("another", metric, f"it is declared as another one already, {_described(other)}")
        # A handler that puts an id into a name would fill memory, and whatever scrapes it.
        elif len(self._published) >= MAX_METRICS:
            self._warn("many", metric, f"there are {MAX_METRICS} already, so no others are", is_of_all=True)
        else:
            published = self._published[metric.name] = _Published(metric)
            self._by_sample_name |= dict.fromkeys(metric.shown_names, metric)
            return published
        return None

    def _find_or_add_series(
        self, published: _Published, owner: Owner, values: tuple[str, ...]
    ) -> _Series | None:
        series = published.series.get((owner, values))
        if series is None:
            if published.set_counts.get(owner, 0) >= MAX_LABEL_SETS:
                self._warn("sets", published.metric, f"new sets of labels' values, beyond {MAX_LABEL_SETS}")
                return None
            if self._series_count + published.metric.series_count > MAX_SERIES:
                why = f"all handlers' metrics have {MAX_SERIES} series, as many as they may: no new ones are"
                self._warn("series", published.metric, why, is_of_all=True)
                return None
            self._series_count += published.metric.series_count
            published.set_counts[owner] = published.set_counts.get(owner, 0) + 1
            series = published.series[owner, values] = _Series()
        return series

    def _warn(self, what: str, metric: CustomMetric, why: str, *, is_of_all: bool = False) -> None:
        """Warn once of each metric, or of all together: a handler may declare any number of names."""
        warning = (what, "" if is_of_all else metric.name)
        if warning not in self._warned and len(self._warned) < MAX_METRICS:
            self._warned.add(warning)
            logger.warning("of the handler's metric %s this isn't published: %s", _described(metric), why)


def _described(metric: CustomMetric) -> str:
    return f"{metric.name} ({metric.kind}; labels: {', '.join(metric.labels) or 'none'})"


def _add_samples(
    family: Family, metric: CustomMetric, labels: Mapping[str, str], value: float, counts: Sequence[int]
) -> None:
    if metric.kind != "histogram":
        family.add_sample(metric.shown_names[0], dict(labels), value)
        return
    bucket, count, total = metric.shown_names
    bounds = [*map(str, map(float, metric.buckets)), "+Inf"]
    # In a scrape each bucket has those below it as well.
    sums = list(accumulate(counts))
    for bound, so_far in zip(bounds, sums, strict=True):
        family.add_sample(bucket, {**labels, "le": bound}, so_far)
    family.add_sample(count, dict(labels), sums[-1])
    family.add_sample(total, dict(labels), value)

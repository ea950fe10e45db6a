"""Handlers' own metrics, as their workers have told of them: published beside the runtime's."""

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
"""Labels, as pairs, that a trigger's samples have."""


@dataclass(slots=True)
class _Series:
    value: float = 0.0
    counts: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Known:
    """One metric. Gauges are kept by worker, and go with its process; the rest stays."""

    measure: CustomMetric
    series: dict[tuple[Owner, tuple[str, ...]], _Series] = field(default_factory=dict)
    sizes: dict[Owner, int] = field(default_factory=dict)


class CustomMetrics(Collector):
    """Of all functions of a replica. A name is one metric: who declares it otherwise isn't heard.

    Read by a scrape on a thread of its own, while the event loop adds to it.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._series_count = 0
        self._known: dict[str, _Known] = {}
        self._shown: dict[str, CustomMetric] = {}
        """By the names of its samples."""
        self._said: set[tuple[str, str]] = set()

    def add(
        self, owner: Owner, worker_index: int, measure: CustomMetric, samples: Sequence[CustomSample]
    ) -> int:
        """What a worker of the trigger `owner` has told. How many of them aren't published."""
        with self._changing:
            known = self._known_of(measure)
            if known is None:
                return len(samples)
            if measure.kind == "gauge":
                owner = (*owner, ("worker_index", str(worker_index)))
            return sum(not self._add(known, owner, sample) for sample in samples)

    def _add(self, known: _Known, owner: Owner, sample: CustomSample) -> bool:
        series = self._series_of(known, owner, sample.labels)
        if series is not None:
            measure = known.measure
            series.value = sample.value if measure.kind == "gauge" else series.value + sample.value
            counts = series.counts or [0] * len(sample.counts)
            series.counts = [a + b for a, b in zip(counts, sample.counts, strict=True)]
        return series is not None

    def forget_worker(self, owner: Owner, worker_index: int) -> None:
        """Its process is gone, and its gauges with it."""
        gone = (*owner, ("worker_index", str(worker_index)))
        with self._changing:
            for known in self._known.values():
                if size := known.sizes.pop(gone, 0):
                    self._series_count -= size * known.measure.series_count
                    known.series = {key: it for key, it in known.series.items() if key[0] != gone}

    def collect(self) -> Iterator[Family]:
        """Called by the registry, from any thread. Nothing that is added waits for long."""
        with self._changing:
            all_known = list(self._known.values())
        for known in all_known:
            measure = known.measure
            family = Family(measure.name, measure.about, measure.kind)
            with self._changing:
                shown = [(key, series.value, series.counts) for key, series in known.series.items()]
            for (owner, values), value, counts in shown:
                labels = {**dict(owner), **dict(zip(measure.labels, values, strict=True))}
                _add_samples(family, measure, labels, value, counts)
            yield family

    def _known_of(self, measure: CustomMetric) -> _Known | None:
        known = self._known.get(measure.name)
        if known is not None and known.measure == measure:
            return known
        other = next((it for name in measure.shown_names if (it := self._shown.get(name))), None)
        if other is not None:
            self._say("another", measure, f"it is declared as another one already, {_described(other)}")
        elif len(self._known) >= MAX_METRICS:
            self._say("many", measure, f"there are {MAX_METRICS} already, so no others are", is_of_all=True)
        else:
            known = self._known[measure.name] = _Known(measure)
            self._shown |= dict.fromkeys(measure.shown_names, measure)
            return known
        return None

    def _series_of(self, known: _Known, owner: Owner, values: tuple[str, ...]) -> _Series | None:
        series = known.series.get((owner, values))
        if series is None:
            if known.sizes.get(owner, 0) >= MAX_LABEL_SETS:
                self._say("sets", known.measure, f"new sets of labels' values, beyond {MAX_LABEL_SETS}")
                return None
            if self._series_count + known.measure.series_count > MAX_SERIES:
                why = f"all handlers' metrics have {MAX_SERIES} series, as many as they may: no new ones are"
                self._say("series", known.measure, why, is_of_all=True)
                return None
            self._series_count += known.measure.series_count
            known.sizes[owner] = known.sizes.get(owner, 0) + 1
            series = known.series[owner, values] = _Series()
        return series

    def _say(self, what: str, measure: CustomMetric, why: str, *, is_of_all: bool = False) -> None:
        """Once of each metric, or of all together: names may be any number."""
        told = (what, "" if is_of_all else measure.name)
        if told not in self._said and len(self._said) < MAX_METRICS:
            self._said.add(told)
            logger.warning("of the handler's metric %s this isn't published: %s", _described(measure), why)


def _described(measure: CustomMetric) -> str:
    return f"{measure.name} ({measure.kind}; labels: {', '.join(measure.labels) or 'none'})"


def _add_samples(
    family: Family, measure: CustomMetric, labels: Mapping[str, str], value: float, counts: Sequence[int]
) -> None:
    if measure.kind != "histogram":
        family.add_sample(measure.shown_names[0], dict(labels), value)
        return
    bucket, count, total = measure.shown_names
    bounds = [*map(str, map(float, measure.buckets)), "+Inf"]
    sums = list(accumulate(counts))
    for bound, so_far in zip(bounds, sums, strict=True):
        family.add_sample(bucket, {**labels, "le": bound}, so_far)
    family.add_sample(count, dict(labels), sums[-1])
    family.add_sample(total, dict(labels), value)

"""Handlers' own metrics, as their workers have told of them: published beside the runtime's."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from headrace.runtime.metrics.measure import MOST_SETS, Measure, Sample

logger = logging.getLogger(__name__)

_MOST_METRICS = 500

Owner = tuple[tuple[str, str], ...]
"""Labels, as pairs, that a trigger's samples have."""


@dataclass(slots=True)
class _Series:
    value: float = 0.0
    counts: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Known:
    """One metric. Gauges are kept by worker, and go with its process; the rest stays."""

    measure: Measure
    series: dict[tuple[Owner, tuple[str, ...]], _Series] = field(default_factory=dict)
    sizes: dict[Owner, int] = field(default_factory=dict)


class CustomMetrics(Collector):
    """Of all functions of a replica. A name is one metric: who declares it otherwise isn't heard."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._shown: dict[str, Measure] = {}
        """By the names of its samples."""
        self._said: set[tuple[str, str]] = set()

    def add(self, owner: Owner, worker_index: int, measure: Measure, samples: Iterable[Sample]) -> None:
        """What a worker of the trigger `owner` has told."""
        known = self._known_of(measure)
        if known is None:
            return
        if measure.kind == "gauge":
            owner = (*owner, ("worker_index", str(worker_index)))
        for sample in samples:
            series = self._series_of(known, owner, sample.labels)
            if series is None:
                return
            series.value = sample.value if measure.kind == "gauge" else series.value + sample.value
            counts = series.counts or [0] * len(sample.counts)
            series.counts = [a + b for a, b in zip(counts, sample.counts, strict=True)]

    def forget_worker(self, owner: Owner, worker_index: int) -> None:
        """Its process is gone, and its gauges with it."""
        gone = (*owner, ("worker_index", str(worker_index)))
        for known in self._known.values():
            if known.sizes.pop(gone, 0):
                known.series = {key: it for key, it in known.series.items() if key[0] != gone}

    def collect(self) -> Iterator[Family]:
        """Called by the registry."""
        for known in self._known.values():
            measure = known.measure
            family = Family(measure.name, measure.about, measure.kind)
            for (owner, values), series in known.series.items():
                labels = {**dict(owner), **dict(zip(measure.labels, values, strict=True))}
                _add_samples(family, measure, labels, series)
            yield family

    def _known_of(self, measure: Measure) -> _Known | None:
        known = self._known.get(measure.name)
        if known is not None and known.measure == measure:
            return known
        other = next((it for name in measure.shown_names if (it := self._shown.get(name))), None)
        if other is not None:
            self._say("another", measure, f"it is declared as another one already, {_described(other)}")
        elif len(self._known) >= _MOST_METRICS:
            self._say("many", measure, f"there are {_MOST_METRICS} already")
        else:
            known = self._known[measure.name] = _Known(measure)
            self._shown |= dict.fromkeys(measure.shown_names, measure)
            return known
        return None

    def _series_of(self, known: _Known, owner: Owner, values: tuple[str, ...]) -> _Series | None:
        series = known.series.get((owner, values))
        if series is None:
            if known.sizes.get(owner, 0) >= MOST_SETS:
                self._say("sets", known.measure, f"new sets of labels' values, beyond {MOST_SETS}")
                return None
            known.sizes[owner] = known.sizes.get(owner, 0) + 1
            series = known.series[owner, values] = _Series()
        return series

    def _say(self, what: str, measure: Measure, why: str) -> None:
        if (what, measure.name) not in self._said:
            self._said.add((what, measure.name))
            logger.warning("of the handler's metric %s this isn't published: %s", _described(measure), why)


def _described(measure: Measure) -> str:
    return f"{measure.name} ({measure.kind}; labels: {', '.join(measure.labels) or 'none'})"


def _add_samples(family: Family, measure: Measure, labels: Mapping[str, str], series: _Series) -> None:
    if measure.kind != "histogram":
        family.add_sample(measure.shown_names[0], dict(labels), series.value)
        return
    bucket, count, total = measure.shown_names
    bounds = [*map(str, map(float, measure.buckets)), "+Inf"]
    sums = list(accumulate(series.counts))
    for bound, so_far in zip(bounds, sums, strict=True):
        family.add_sample(bucket, {**labels, "le": bound}, so_far)
    family.add_sample(count, dict(labels), sums[-1])
    family.add_sample(total, dict(labels), series.value)

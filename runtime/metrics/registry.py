"""The metrics of one processor, in one registry."""

import platform
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from headrace.runtime.metrics.custom_metrics import CustomMetrics
from headrace.runtime.metrics.declaration import Metric, declared_in
from headrace.runtime.metrics.gauges import Gauges
from headrace.runtime.metrics.trigger import TriggerMetrics

BUILD_INFO = Metric(
    "gauge", "headrace_build_info", "1, with what runs as labels", "", ("replica", "version", "python")
)
METRICS = tuple(
    dict.fromkeys(
        [metric for model in (TriggerMetrics, Gauges) for _, metric, _ in declared_in(model)] + [BUILD_INFO]
    )
)


class MetricRegistry:
    """All of METRICS, and `process_*` of the processor itself."""

    def __init__(self, replica: str = "") -> None:
        self.registry = CollectorRegistry()
        self._families = {metric: metric.register(self.registry) for metric in METRICS}
        self.gauges = Gauges(**{name: self._families[metric] for name, metric, _ in declared_in(Gauges)})
        self.family(BUILD_INFO).labels(replica, version("headrace"), platform.python_version()).set(1)
        self.registry.register(_Process(replica))
        self.custom = CustomMetrics()
        self.registry.register(self.custom)

    def family(self, metric: Metric) -> Any:
        """Its Counter or Gauge, from which `labels(...)` makes children."""
        return self._families[metric]


class _Process(Collector):
    """The client's `process_*`, with the label that tells replicas apart."""

    def __init__(self, replica: str) -> None:
        self._collector = ProcessCollector(registry=None)
        self._labels = {"replica": replica}

    def collect(self) -> Iterator[Family]:
        """Called by the registry."""
        for family in self._collector.collect():
            family.samples = [sample._replace(labels=self._labels) for sample in family.samples]
            yield family

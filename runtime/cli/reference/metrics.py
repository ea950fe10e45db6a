"""The reference of all metrics, docs/operate/metrics.md, from their declarations."""

from headrace.runtime.config.reference import table
from headrace.runtime.metrics.declaration import LABELS, TRIGGER_LABELS, Metric, declared_in
from headrace.runtime.metrics.registry import METRICS
from headrace.runtime.metrics.trigger import TriggerMetrics

_METRICS_HEAD = """\
# Metrics

What `/metrics` of the admin server says, in Prometheus' text format. `headrace schema --metrics` generates
this page from the declarations that the samples are made of.

- Counters begin at 0 when their replica starts; gauges are read when somebody asks.
- With `--replicas N` the one admin server has the samples of all replicas, told apart by the label `replica`.
- A partition's gauges are those of the replica that has it; they go when it goes.
- `nuclio_processor_handled_events_total` counts attempts: a record that comes again counts twice. Kills by
  the memory limit are restarts with that reason.
- `process_*` (CPU, memory, descriptors, start) are of the replica's own process, without its workers.
- Nuclio's label `instance` is left out: Prometheus gives that name to what it scrapes.
- Alerts and a dashboard: [alerts](alerts.md). Handlers may have [metrics of their own](../guide/metrics.md).
"""


def metrics_reference() -> str:
    """Markdown: a table of the metrics, and one of the labels."""
    everywhere = ", ".join(f"`{label}`" for label in TRIGGER_LABELS)
    lines = [
        "",
        *table(("name", "type", "unit", "labels besides", "what it says"), map(_metric_row, METRICS)),
        "",
        "## Labels",
        "",
        f"Every metric but `headrace_build_info` and `process_*`, which have `replica`, has {everywhere}.",
        "",
        *table(("label", "value"), ((f"`{label}`", meaning) for label, meaning in LABELS.items())),
    ]
    return _METRICS_HEAD + "\n".join(lines) + "\n"


def _metric_row(metric: Metric) -> tuple[str, ...]:
    results = [values[0] for _, other, values in declared_in(TriggerMetrics) if other is metric and values]
    said = f": {' or '.join(f'`{result}`' for result in results)}" if results else ""
    labels = ", ".join(f"`{label}`" for label in metric.labels if label not in TRIGGER_LABELS)
    return (f"`{metric.shown_name}`", metric.kind, metric.unit, labels + said, f"{metric.about}.")

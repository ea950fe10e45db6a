"""METRICS frames: what a handler has counted by metrics of its own."""

from collections.abc import Iterator, Sequence

from headrace.runtime.metrics.custom_metric import MAX_LABEL_SETS, CustomMetric, CustomSample
from headrace.runtime.wire.framing import FrameKind, decode_json, json_frame

# Few enough for a frame below its limit, with labels as long as they may be.
_SAMPLES_PER_FRAME = 50


def encode_metrics(
    metric: CustomMetric, samples: Sequence[CustomSample], dropped: int = 0
) -> Iterator[bytes]:
    """Yield METRICS frames of one metric, short enough each. `dropped`: calls that weren't counted."""
    about = (metric.kind, metric.name, metric.about, metric.labels, metric.buckets)
    for at in range(0, len(samples), _SAMPLES_PER_FRAME):
        yield json_frame(FrameKind.METRICS, [about, samples[at : at + _SAMPLES_PER_FRAME]])
    if dropped:
        yield json_frame(FrameKind.METRICS, [about, [], dropped])


def decode_metrics(body: bytes) -> tuple[CustomMetric, list[CustomSample], int]:
    """Return what `encode_metrics` was given. Raises ValueError or TypeError for what can't be."""
    (kind, name, about, labels, buckets), said, *rest = decode_json(body)
    # The handler may have written this itself: all of it is checked before anything is added up.
    if kind not in {"counter", "gauge", "histogram"} or len(said) > MAX_LABEL_SETS:
        raise ValueError(f"a metric of kind {kind!r:.20} and {len(said)} samples")
    bounds = tuple(map(float, buckets))
    metric = CustomMetric(kind, _text(name), _text(about), tuple(map(_text, labels)), bounds)
    samples = [
        CustomSample(tuple(map(_text, values)), float(value), tuple(map(_count, counts)))
        for values, value, counts in said
    ]
    if not all(map(metric.is_sample, samples)):
        raise ValueError(f"samples that {name} can't have")
    if kind == "counter" and any(sample.value < 0 for sample in samples):
        raise ValueError(f"{name} goes back")
    (dropped,) = map(_count, rest or [0])
    return metric, samples, dropped


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.20} is no text")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 53:
        raise TypeError(f"{value!r:.20} is no number of times")
    return value

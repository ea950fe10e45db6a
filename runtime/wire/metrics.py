"""What a worker's handler has counted: METRICS frames."""

from collections.abc import Iterator, Sequence

from headrace.runtime.metrics.custom_metric import MAX_LABEL_SETS, CustomMetric, CustomSample
from headrace.runtime.wire.records import FrameKind, decode_json, json_frame

_PER_FRAME = 50


def encode_metrics(
    measure: CustomMetric, samples: Sequence[CustomSample], dropped: int = 0
) -> Iterator[bytes]:
    """METRICS: of one metric, in frames that are short enough. `dropped`: calls that weren't counted."""
    about = (measure.kind, measure.name, measure.about, measure.labels, measure.buckets)
    for at in range(0, len(samples), _PER_FRAME):
        yield json_frame(FrameKind.METRICS, [about, samples[at : at + _PER_FRAME]])
    if dropped:
        yield json_frame(FrameKind.METRICS, [about, [], dropped])


def decode_metrics(body: bytes) -> tuple[CustomMetric, list[CustomSample], int]:
    """What `encode_metrics` was given. Raises ValueError, or TypeError, for what can't be."""
    (kind, name, about, labels, buckets), said, *rest = decode_json(body)
    if kind not in {"counter", "gauge", "histogram"} or len(said) > MAX_LABEL_SETS:
        raise ValueError(f"a metric of kind {kind!r:.20} and {len(said)} samples")
    bounds = tuple(map(float, buckets))
    measure = CustomMetric(kind, _text(name), _text(about), tuple(map(_text, labels)), bounds)
    samples = [
        CustomSample(tuple(map(_text, values)), float(value), tuple(map(_count, counts)))
        for values, value, counts in said
    ]
    if not all(map(measure.is_sample, samples)):
        raise ValueError(f"samples that {name} can't have")
    if kind == "counter" and any(sample.value < 0 for sample in samples):
        raise ValueError(f"{name} goes back")
    (dropped,) = map(_count, rest or [0])
    return measure, samples, dropped


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.20} is no text")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 53:
        raise TypeError(f"{value!r:.20} is no number of times")
    return value

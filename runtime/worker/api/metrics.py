"""`context.metrics`: counters, gauges and histograms of a handler's own."""

import logging
import math
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from headrace.runtime.metrics.custom_metric import (
    MAX_LABEL_SETS,
    MAX_METRICS,
    MAX_SERIES,
    MAX_VALUE_CHARS,
    CustomMetric,
    CustomSample,
    MetricKind,
)
from headrace.runtime.wire.metrics import encode_metrics

logger = logging.getLogger("headrace.metrics")

SEND_SECONDS = 1.0
"""How often what has changed goes to the processor. A worker that is killed takes along what hasn't."""
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

S = TypeVar("S")


class _SeriesLimit:
    """Bounds the series of all metrics of a worker. Threads that meet here may pass the bound by some few."""

    def __init__(self) -> None:
        self._series_count = 0
        self._is_full = False

    def take(self, measure: CustomMetric) -> bool:
        """Take in one more set of labels' values; False where it doesn't fit."""
        if self._series_count + measure.series_count <= MAX_SERIES:
            self._series_count += measure.series_count
            return True
        if not self._is_full:
            self._is_full = True
            message = "metric %s: the worker's metrics have %d series, as many as they may: no new ones count"
            logger.warning(message, measure.name, MAX_SERIES)
        return False


class _Metric(Generic[S]):
    """A metric that any thread may change. `S` is what is kept of one set of labels' values to be sent."""

    def __init__(self, measure: CustomMetric, on_change: Callable[[], None], series: _SeriesLimit) -> None:
        self.measure = measure
        self._on_change = on_change
        self._series = series
        self._dropped = 0
        # Not a plain lock: a signal handler of the user's may count amid this.
        self._lock = threading.RLock()
        self._sets: set[tuple[str, ...]] = set()
        self._changed: dict[tuple[str, ...], S] = {}
        self._is_full = False

    def take(self) -> tuple[list[CustomSample], int]:
        """Return the samples that have changed since the last call, and how many changes found no room."""
        with self._lock:
            # Swapped under the lock, made into samples outside: handlers aren't kept waiting.
            changed, self._changed = self._changed, {}
            dropped, self._dropped = self._dropped, 0
        return [self._sample(values, state) for values, state in changed.items()], dropped

    def abandon(self) -> None:
        """Replace the lock, in a process that the handler has forked: another thread may have held it."""
        self._lock = threading.RLock()

    def _change(self, labels: dict[str, Any], change: Callable[[S | None], S]) -> None:
        values = self._values_of(labels)
        with self._lock:
            if values in self._sets or self._has_room():
                self._sets.add(values)
                self._changed[values] = change(self._changed.get(values))
            else:
                self._dropped += 1
        self._on_change()

    def _values_of(self, labels: dict[str, Any]) -> tuple[str, ...]:
        names = self.measure.labels
        if labels.keys() != set(names):
            got = ", ".join(labels) or "none"
            raise ValueError(
                f"metric {self.measure.name}: its labels are {', '.join(names) or 'none'}, not {got}"
            )
        return tuple(_value(labels[name]) for name in names)

    def _has_room(self) -> bool:
        if len(self._sets) < MAX_LABEL_SETS:
            return self._series.take(self.measure)
        if not self._is_full:
            self._is_full = True
            message = "metric %s has %d sets of labels' values, as many as it may: new ones aren't counted"
            logger.warning(message, self.measure.name, MAX_LABEL_SETS)
        return False

    def _sample(self, values: tuple[str, ...], state: S) -> CustomSample:
        raise NotImplementedError


class Counter(_Metric[float]):
    """A number that only rises. Shown with `_total` behind its name."""

    def inc(self, amount: float = 1, /, **labels: Any) -> None:
        """Add `amount`. Raises ValueError for one below 0, or for other labels than it was declared with."""
        if not 0 <= amount < math.inf:
            raise ValueError(f"metric {self.measure.name}: {amount} can't be added to a counter")
        self._change(labels, lambda so_far: _finite((so_far or 0.0) + amount))

    def _sample(self, values: tuple[str, ...], state: float) -> CustomSample:
        return CustomSample(values, state)


class Gauge(_Metric[float]):
    """A number that goes up and down. Each worker has its own, which goes with its process."""

    def __init__(self, measure: CustomMetric, on_change: Callable[[], None], series: _SeriesLimit) -> None:
        super().__init__(measure, on_change, series)
        self._now: dict[tuple[str, ...], float] = {}

    def set(self, value: float, /, **labels: Any) -> None:
        """Set the value. Raises ValueError for other labels than it was declared with."""
        self._change(labels, lambda _: float(value))

    def inc(self, amount: float = 1, /, **labels: Any) -> None:
        """Add `amount`, to 0 where the gauge was never set. Raises ValueError as `set` does."""
        with self._lock:
            self.set(self._now.get(self._values_of(labels), 0.0) + amount, **labels)

    def dec(self, amount: float = 1, /, **labels: Any) -> None:
        """Subtract `amount`, from 0 where the gauge was never set. Raises ValueError as `set` does."""
        self.inc(-amount, **labels)

    def _change(self, labels: dict[str, Any], change: Callable[[float | None], float]) -> None:
        with self._lock:
            super()._change(labels, change)
            if (values := self._values_of(labels)) in self._sets:
                self._now[values] = change(None)

    def _sample(self, values: tuple[str, ...], state: float) -> CustomSample:
        return CustomSample(values, state)


class Histogram(_Metric[tuple[float, list[int]]]):
    """Values, counted in buckets."""

    def observe(self, value: float, /, **labels: Any) -> None:
        """Count `value`. Raises ValueError unless it is a finite number, or for other labels."""
        if not math.isfinite(value):
            raise ValueError(f"metric {self.measure.name}: {value} can't be observed")
        at = bisect_left(self.measure.buckets, value)

        def added(so_far: tuple[float, list[int]] | None) -> tuple[float, list[int]]:
            total, counts = so_far or (0.0, [0] * (len(self.measure.buckets) + 1))
            counts[at] += 1
            return _finite(total + value), counts

        self._change(labels, added)

    def _sample(self, values: tuple[str, ...], state: tuple[float, list[int]]) -> CustomSample:
        return CustomSample(values, state[0], tuple(state[1]))


AnyMetric = Counter | Gauge | Histogram
M = TypeVar("M", Counter, Gauge, Histogram)


class HandlerMetrics:
    """The metrics of a worker: each is declared once, in `init_context`.

    The same declaration again returns the same metric. The processor's /metrics shows them, with the labels
    that its own metrics have. Counters and histograms are summed over all workers of a trigger.
    """

    def __init__(self, send: Callable[[bytes], None], *, sends_by_itself: bool = False) -> None:
        """`send` writes frames to the processor.

        With `sends_by_itself` a thread does, every SEND_SECONDS from the first declaration on; else `flush`
        alone.
        """
        self._sends_by_itself = sends_by_itself
        self._send = send
        self._metrics: dict[str, AnyMetric] = {}
        self._series = _SeriesLimit()
        self._lock = threading.RLock()
        self._sending = threading.RLock()
        self._has_changed = threading.Event()
        self._is_abandoned = False

    def counter(self, name: str, help: str = "", labels: Sequence[str] = ()) -> Counter:  # noqa: A002
        """Declare a counter. `help` is what a scrape says of it.

        Raises ValueError for a name that is another metric's or one of Headrace's, or other words than
        before.
        """
        return self._declared(Counter, _measure("counter", name.removesuffix("_total"), help, labels))

    def gauge(self, name: str, help: str = "", labels: Sequence[str] = ()) -> Gauge:  # noqa: A002
        """Declare a gauge. Raises ValueError as `counter` does."""
        return self._declared(Gauge, _measure("gauge", name, help, labels))

    def histogram(
        self,
        name: str,
        help: str = "",  # noqa: A002
        labels: Sequence[str] = (),
        buckets: Iterable[float] = _BUCKETS,
    ) -> Histogram:
        """Declare a histogram. Raises ValueError as `counter` does.

        `buckets` are the upper bounds; one above all of them follows by itself.
        """
        return self._declared(Histogram, _measure("histogram", name, help, labels, tuple(buckets)))

    def flush(self) -> None:
        """Send what has changed, now."""
        with self._sending:
            self._has_changed.clear()
            for metric in tuple(self._metrics.values()) if not self._is_abandoned else ():
                if frames := b"".join(encode_metrics(metric.measure, *metric.take())):
                    self._send(frames)

    def abandon(self) -> None:
        """Stop sending, in a process that the handler has forked."""
        self._is_abandoned = True
        self._lock, self._sending, self._has_changed = threading.RLock(), threading.RLock(), threading.Event()
        for metric in self._metrics.values():
            metric.abandon()

    def _declared(self, made: type[M], measure: CustomMetric) -> M:
        with self._lock:
            if (known := self._metrics.get(measure.name)) is not None:
                if known.measure != measure or not isinstance(known, made):
                    raise ValueError(f"metric {measure.name!r} is declared already, in other words")
                return known
            if taken := {*measure.shown_names} & {
                shown for metric in self._metrics.values() for shown in metric.measure.shown_names
            }:
                raise ValueError(f"metric {measure.name!r}: {min(taken)} is shown by another one")
            if len(self._metrics) >= MAX_METRICS:
                raise ValueError(f"metric {measure.name!r}: there are {MAX_METRICS} already, no more may be")
            if not self._metrics and self._sends_by_itself:
                threading.Thread(target=self._send_forever, name="headrace-metrics", daemon=True).start()
            metric = made(measure, self._on_change, self._series)
            # A new dict: the sending thread may be going through the last one.
            self._metrics = {**self._metrics, measure.name: metric}
            return metric

    def _on_change(self) -> None:
        # Asked first, as `set` takes a lock each time.
        if not self._has_changed.is_set():
            self._has_changed.set()

    def _send_forever(self) -> None:
        while True:
            self._has_changed.wait()
            # What changes within this time goes out together.
            time.sleep(SEND_SECONDS)
            self.flush()


def _value(label_value: object) -> str:
    """Return a label's value as text: cut, and without halves of surrogate pairs, which no scrape can say."""
    text = str(label_value)[:MAX_VALUE_CHARS]
    return text if text.isascii() else text.encode(errors="replace").decode()


def _finite(total: float) -> float:
    """Return the sum, or the largest number there is where it has overflown."""
    return max(-sys.float_info.max, min(total, sys.float_info.max))


def _measure(
    kind: MetricKind, name: str, about: str, labels: Sequence[str], buckets: tuple[float, ...] = ()
) -> CustomMetric:
    if isinstance(labels, str):
        raise TypeError(f"metric {name!r}: labels is a text; expected a list of names, such as [{labels!r}]")
    return CustomMetric(kind, name, about, tuple(labels), tuple(map(float, buckets)))

"""A custom metric, which a handler declares: names that it may have, and limits of its size.

Workers import this too, so no metrics client.
"""

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

MAX_METRICS = 500
"""Metrics of one replica's handlers."""
MAX_LABEL_SETS = 1000
"""Sets of label values of one metric and trigger: each is a series that whoever scrapes has to keep."""
MAX_SERIES = 20_000
"""Series of all custom metrics of a replica. Each is a line of a scrape; each bucket has one too."""
MAX_VALUE_CHARS = 200
"""Characters of a label's value. Longer ones are cut."""
_MAX_LABELS = 10
# Each is a series for each set of labels' values: with 1,000 sets these alone would pass MAX_SERIES.
_MAX_BUCKETS = 50
_MAX_ABOUT_CHARS = 500
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,199}")
# Names with two underscores in front are Prometheus' own.
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,99}")
# Names that the runtime publishes itself, and those of its client.
_RESERVED = ("headrace_", "nuclio_", "process_", "python_")
# Spelled out, as the module that declares them imports the metrics client. The last two are Prometheus' own.
_RESERVED_LABELS = {
    *("replica", "namespace", "project", "function", "trigger_kind", "trigger_id", "worker_index"),
    *("le", "quantile"),
}

MetricKind = Literal["counter", "gauge", "histogram"]
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


@dataclass(frozen=True, slots=True)
class CustomMetric:
    """A metric of a handler. A counter's `name` is without `_total`; `buckets` are a histogram's bounds."""

    kind: MetricKind
    name: str
    about: str = ""
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check it. Raises ValueError, in one line."""
        if fault := self._fault():
            raise ValueError(f"metric {self.name[:200]!r}: {fault}")

    @property
    def shown_names(self) -> tuple[str, ...]:
        """Names of its samples in a scrape."""
        return tuple(self.name + suffix for suffix in _SUFFIXES[self.kind])

    @property
    def series_count(self) -> int:
        """Number of series for each set of label values."""
        return len(self.buckets) + 3 if self.kind == "histogram" else 1

    def is_sample(self, sample: "CustomSample") -> bool:
        """Whether `sample` can be one of this metric's."""
        if len(sample.labels) != len(self.labels) or not all(map(_is_value, sample.labels)):
            return False
        # A gauge may be anything, also NaN and infinity.
        if self.kind == "gauge":
            return not sample.counts
        # The others are added up: NaN or infinity in one sample would stay in the sum for good.
        return math.isfinite(sample.value) and len(sample.counts) == (
            len(self.buckets) + 1 if self.kind == "histogram" else 0
        )

    def _fault(self) -> str:
        # In the order in which a user would mend them: the first fault is the message.
        wrong = next((label for label in self.labels if not _LABEL.fullmatch(label)), None)
        taken = next((label for label in self.labels if label in _RESERVED_LABELS), None)
        faults = {
            "is no name: letters, digits, _ and :, at most 200": not _NAME.fullmatch(self.name),
            f"names that begin with {', '.join(_RESERVED)} are Headrace's own": self.name.startswith(
                _RESERVED
            ),
            f"{wrong!r} is no name of a label: letters, digits and _": wrong is not None,
            f"the label {taken!r} is Headrace's own": taken is not None,
            "a label is there twice": len(set(self.labels)) < len(self.labels),
            f"has more than {_MAX_LABELS} labels": len(self.labels) > _MAX_LABELS,
            "is described with half of a surrogate pair": not is_whole(self.about),
            f"is described in more than {_MAX_ABOUT_CHARS} characters": len(self.about) > _MAX_ABOUT_CHARS,
            f"buckets are 1 to {_MAX_BUCKETS} numbers that rise": not self._are_buckets_right,
        }
        return next((fault for fault, is_so in faults.items() if is_so), "")

    @property
    def _are_buckets_right(self) -> bool:
        bounds = self.buckets
        if self.kind != "histogram":
            return not bounds
        rises = all(low < high for low, high in pairwise(bounds))
        return 0 < len(bounds) <= _MAX_BUCKETS and rises and all(map(math.isfinite, bounds))


def is_whole(text: str) -> bool:
    """Whether UTF-8 can encode `text`: half of a surrogate pair can't be, and would fail each scrape."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_value(text: str) -> bool:
    return len(text) <= MAX_VALUE_CHARS and is_whole(text)


class CustomSample(NamedTuple):
    """A sample of one set of label values: a gauge as it is, of others what has come since the last one."""

    labels: tuple[str, ...]
    value: float
    """The value; of a histogram the sum."""
    counts: tuple[int, ...] = ()
    """Counts of a histogram's buckets, each by itself; the last one is of what is above all bounds."""

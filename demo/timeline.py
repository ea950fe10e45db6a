"""History of the demo, second by second: for the screen while it runs, for the plots afterwards."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Sample:
    """Orders in Kafka, in both sinks, and handled by each replica, `seconds` after the start."""

    seconds: float
    produced: int
    stored: int
    handled: Mapping[str, int]

    @property
    def lag(self) -> int:
        """Orders that are produced and not yet in the sinks."""
        return max(0, self.produced - self.stored)


@dataclass(frozen=True, slots=True)
class Moment:
    """An event to mark in the plots."""

    seconds: float
    text: str


@dataclass
class History:
    """Samples and moments since the history was made."""

    samples: list[Sample] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def still_seconds(self) -> float:
        """Return for how long nothing has come into the sinks."""
        stored = self.samples[-1].stored
        return self.seconds - next(sample.seconds for sample in self.samples if sample.stored == stored)

    def rates(self, replica: str = "") -> list[float]:
        """Return records per second at each sample: handled by `replica`, or produced if that is empty."""
        counts = [sample.handled[replica] if replica else sample.produced for sample in self.samples]
        seconds = [sample.seconds for sample in self.samples]
        steps = zip(pairwise(counts), pairwise(seconds), strict=True)
        return [0.0] + [(now - before) / (until - since) for (before, now), (since, until) in steps]

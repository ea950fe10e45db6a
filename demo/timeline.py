"""What the demo saw, second by second: for the screen while it runs, for the plots afterwards."""

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
        """Produced, and not in the sinks yet."""
        return max(0, self.produced - self.stored)


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened."""

    seconds: float
    text: str


@dataclass
class History:
    """Begins with its construction."""

    samples: list[Sample] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._started

    def still_seconds(self) -> float:
        """How long nothing has come into the sinks."""
        stored = self.samples[-1].stored
        return self.seconds - next(sample.seconds for sample in self.samples if sample.stored == stored)

    def rates(self, replica: str = "") -> list[float]:
        """Per second, one for each sample: what the replica handled; without one, what was produced."""
        counts = [sample.handled[replica] if replica else sample.produced for sample in self.samples]
        seconds = [sample.seconds for sample in self.samples]
        steps = zip(pairwise(counts), pairwise(seconds), strict=True)
        return [0.0] + [(now - before) / (until - since) for (before, now), (since, until) in steps]

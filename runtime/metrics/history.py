"""The last minutes of a trigger, for the admin server's page: what it did each second, and what happened."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from headrace.runtime.errors import one_line

_MOST_SAMPLES = 600
_MOST_EVENTS = 100
_MOST_CHARS = 1000

EventKind = Literal["assigned", "revoked", "restart", "halted"]


class History:
    """Bounded, and never of what records say."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """`now` gives seconds since the epoch."""
        self._now = now
        self._samples: deque[tuple[float, int, int, int]] = deque(maxlen=_MOST_SAMPLES)
        self._events: deque[tuple[float, EventKind, str]] = deque(maxlen=_MOST_EVENTS)

    def sample(self, lag: int, handled: float, failed: float) -> None:
        """Records behind, and those that succeeded and failed since the start."""
        self._samples.append((round(self._now(), 2), lag, int(handled), int(failed)))

    def note(self, kind: EventKind, text: str) -> None:
        """It happened now."""
        self._events.append((round(self._now(), 2), kind, one_line(text, _MOST_CHARS)))

    def json(self) -> dict[str, Any]:
        """`samples` are [time, lag, handled, failed], `events` [time, kind, text]; oldest first."""
        return {"samples": list(self._samples), "events": list(self._events)}

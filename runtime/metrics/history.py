"""The last minutes of a trigger, for the admin server's page: its rates, and what happened."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from headrace.runtime.errors import one_line

# Ten minutes, a sample each second.
_MAX_SAMPLES = 600
# A worker that dies again and again notes an event each time.
_MAX_EVENTS = 100
_MAX_CHARS = 1000

EventKind = Literal["assigned", "revoked", "restart", "halted"]


class History:
    """Samples and events of one trigger: the last ones, and nothing of what records contain."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """`now` returns seconds since the epoch."""
        self._now = now
        self._samples: deque[tuple[float, int, int, int]] = deque(maxlen=_MAX_SAMPLES)
        self._events: deque[tuple[float, EventKind, str]] = deque(maxlen=_MAX_EVENTS)

    def sample(self, lag: int, handled: float, failed: float) -> None:
        """Add a sample: records behind, and those that succeeded and failed since the start."""
        self._samples.append((round(self._now(), 2), lag, int(handled), int(failed)))

    def note(self, kind: EventKind, text: str) -> None:
        """Add an event that has happened now."""
        # One line, cut: a reason may be a traceback.
        self._events.append((round(self._now(), 2), kind, one_line(text, _MAX_CHARS)))

    def json(self) -> dict[str, Any]:
        """Return `samples` [time, lag, handled, failed] and `events` [time, kind, text]; oldest first."""
        return {"samples": list(self._samples), "events": list(self._events)}

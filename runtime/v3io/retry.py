"""Retries: how long to wait between attempts, and how often to log that they fail."""

import random
from collections.abc import Iterator

_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.05, 1.0


def backoff_seconds() -> Iterator[float]:
    """Yield how long to wait after each attempt, in seconds, without end.

    The pauses are random, so that members whose writes have collided don't collide again.
    """
    most = _FIRST_PAUSE_SECONDS
    while True:
        yield random.uniform(most / 4, most)  # noqa: S311  # no secret
        most = min(most * 4, _MAX_PAUSE_SECONDS)


class LogThrottle:
    """Limits the log lines about something that recurs: the first time, then every `every`-th time."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._count = 0

    def should_log(self) -> bool:
        """Count one more occurrence; return whether it is to be logged."""
        self._count += 1
        return self._count % self._every == 1

    def reset(self) -> None:
        """Have the next occurrence count as the first one again."""
        self._count = 0

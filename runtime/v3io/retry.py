"""Trying again: how long to wait, and how often to say so."""

import random
from collections.abc import Iterator

_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.05, 1.0


def backoff_seconds() -> Iterator[float]:
    """After one attempt and the next, in seconds: random, so that those who have met don't meet again."""
    most = _FIRST_PAUSE_SECONDS
    while True:
        yield random.uniform(most / 4, most)  # noqa: S311  # no secret
        most = min(most * 4, _MAX_PAUSE_SECONDS)


class LogThrottle:
    """Something that happens again and again: worth a line the first time, and then now and then."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._count = 0

    def is_news(self) -> bool:
        """It has happened once more."""
        self._count += 1
        return self._count % self._every == 1

    def end(self) -> None:
        """It didn't happen: the next time is the first one again."""
        self._count = 0

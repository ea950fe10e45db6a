"""Deadlines of equal length under one timer, for waits that come and go with each request."""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """Waiters in the order in which they began to wait, under one timer."""

    def __init__(self, seconds: float, on_late: Callable[[K], object]) -> None:
        """Call `on_late` for each waiter that has waited for `seconds`; it no longer waits then."""
        self._seconds = seconds
        self._on_late = on_late
        self._until: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._until)

    def __iter__(self) -> Iterator[K]:
        return iter(self._until)

    def add(self, waiter: K) -> None:
        """Have `waiter` wait from now on, anew if it waits already."""
        loop = asyncio.get_running_loop()
        self.discard(waiter)  # so that it comes last: the dict is in the order of the deadlines
        self._until[waiter] = until = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(until, self._end)

    def discard(self, waiter: K) -> bool:
        """End the wait of `waiter`. Return whether it was waiting."""
        return self._until.pop(waiter, None) is not None

    def _end(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        late = [waiter for waiter, until in self._until.items() if until <= now]
        for waiter in late:
            self.discard(waiter)
        # One timer for all: it is set again for the waiter that comes first now.
        first = next(iter(self._until.values()), None)
        self._timer = None if first is None else loop.call_at(first, self._end)
        # Only now: `on_late` may add waiters.
        for waiter in late:
            self._on_late(waiter)

"""Waits that all may last equally long, under one timer: they come and go with each request."""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """What waits, in the order in which it began to."""

    def __init__(self, seconds: float, on_late: Callable[[K], object]) -> None:
        """`on_late` is called for each that has waited for `seconds`; it no longer does then."""
        self._seconds = seconds
        self._on_late = on_late
        self._until: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._until)

    def __iter__(self) -> Iterator[K]:
        return iter(self._until)

    def add(self, waiter: K) -> None:
        """It begins to wait, anew where it does already."""
        loop = asyncio.get_running_loop()
        self.discard(waiter)
        self._until[waiter] = until = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(until, self._end)

    def discard(self, waiter: K) -> bool:
        """It waits no longer; whether it did."""
        return self._until.pop(waiter, None) is not None

    def _end(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        late = [waiter for waiter, until in self._until.items() if until <= now]
        for waiter in late:
            self.discard(waiter)
        first = next(iter(self._until.values()), None)
        self._timer = None if first is None else loop.call_at(first, self._end)
        for waiter in late:
            self._on_late(waiter)

"""Memory that a server's connections hold: a budget for all, and what each takes of it. Pure."""

import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.runtime.web.message_framing import FrameTracker

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Usage:
    byte_count: int
    received_bytes: int
    """Bytes that the holder has added since `since`, also those that it has released."""
    since: float


class MemoryBudget(Generic[K]):
    """Bytes that all holders keep together, at most `max_bytes`; beyond that the slowest ones are evicted.

    A holder is slow if it has received little for the time that it has held something. So a client that holds
    much for long shuts out nobody, and one that sends as fast as it can stays.
    """

    def __init__(
        self,
        max_bytes: int,
        evict: Callable[[K], object],
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """`evict` is called for each holder that has to go, once the budget counts nothing of it any more."""
        self._max_bytes = max_bytes
        self._evict = evict
        self._now_seconds = now_seconds
        self._usages: dict[K, _Usage] = {}
        self.byte_count = 0

    def add(self, holder: K, byte_count: int) -> None:
        """Count `byte_count` more bytes for `holder`. May evict holders, this one too."""
        usage = self._usages.get(holder)
        if usage is None:
            self._usages[holder] = _Usage(byte_count, byte_count, self._now_seconds())
        else:
            usage.byte_count += byte_count
            usage.received_bytes += byte_count
        self.byte_count += byte_count
        if self.byte_count > self._max_bytes:
            self._evict_slowest()

    def release(self, holder: K, byte_count: int) -> None:
        """Count up to `byte_count` fewer bytes for `holder`: no more than are counted for it."""
        usage = self._usages.get(holder)
        if usage is None:
            return
        released = min(byte_count, usage.byte_count)
        usage.byte_count -= released
        self.byte_count -= released
        if not usage.byte_count:
            del self._usages[holder]

    def release_all(self, holder: K) -> None:
        """Count nothing for `holder` any more. Idempotent."""
        if (usage := self._usages.pop(holder, None)) is not None:
            self.byte_count -= usage.byte_count

    def _evict_slowest(self) -> None:
        now = self._now_seconds()

        def rate(holder: K) -> float:
            usage = self._usages[holder]
            # A holder may have begun in this very moment.
            return usage.received_bytes / max(now - usage.since, 1e-6)

        evicted = []
        # Down to three quarters, so that small holders go many at once: each call sorts all of them.
        for holder in sorted(self._usages, key=rate):
            if self.byte_count <= self._max_bytes * 3 // 4:
                break
            # The budget is kept already: a large holder need not go for the sake of the free quarter.
            if self.byte_count <= self._max_bytes < self._usages[holder].byte_count * 4:
                continue
            self.release_all(holder)
            evicted.append(holder)
        # Only now: what is called may come back here.
        for holder in evicted:
            self._evict(holder)


class RequestMemory(Generic[K]):
    """Bytes that each unanswered request of one connection costs, oldest first, counted in a shared budget.

    Each method that adds bytes may have `holder` evicted.
    """

    def __init__(self, budget: MemoryBudget[K], holder: K) -> None:
        self._budget = budget
        self._holder = holder
        self._costs: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._costs)

    def begin(self, byte_count: int) -> None:
        """Add a request, of which `byte_count` bytes are kept by now."""
        self._costs.append(0)
        if byte_count:
            self.grow_newest(byte_count)

    def grow_newest(self, byte_count: int) -> None:
        """Add bytes to the newest request; does nothing where no request is unanswered."""
        if self._costs:
            self._change(-1, byte_count)

    def set_oldest(self, byte_count: int) -> None:
        """Say how many bytes are kept of the oldest request."""
        if self._costs:
            self._change(0, byte_count - self._costs[0])

    def consume_oldest(self, byte_count: int, left: int) -> None:
        """Release what `byte_count` bytes of the oldest body have cost, `left` of which are still kept.

        Overhead is shared out by bytes: a body costs more than its length where it came in many chunks.
        """
        if self._costs and byte_count:
            cost = self._costs[0]
            self._change(0, cost * left // (byte_count + left) - cost)

    def end_answered(self, waiting: int) -> None:
        """Release the oldest requests, until `waiting` are left."""
        while len(self._costs) > waiting:
            self._budget.release(self._holder, self._costs.popleft())

    def forget(self) -> None:
        """Release everything, and keep the requests themselves in the list, at no cost."""
        self._budget.release_all(self._holder)
        self._costs = deque([0] * len(self._costs))

    def _change(self, place: int, byte_count: int) -> None:
        self._costs[place] += byte_count
        if byte_count > 0:
            self._budget.add(self._holder, byte_count)
        else:
            self._budget.release(self._holder, -byte_count)


class FrameMemory(Generic[K]):
    """Bytes of one WebSocket that have come and that nobody has read, counted in a shared budget."""

    def __init__(self, budget: MemoryBudget[K], holder: K) -> None:
        self._budget = budget
        self._holder = holder
        self._tracker = FrameTracker()

    @property
    def is_masked(self) -> bool:
        """Whether all frames so far are masked, as those of clients have to be."""
        return self._tracker.is_masked

    def feed(self, data: bytes) -> None:
        """Count bytes that have come. May have `holder` evicted."""
        self._budget.add(self._holder, self._tracker.feed(data))

    def release_oldest(self) -> None:
        """Release the oldest message, ping or pong: its reader has it."""
        if self._tracker.unread:
            self._budget.release(self._holder, self._tracker.unread.popleft())

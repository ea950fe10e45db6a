"""Bytes that all connections of a server hold together. Pure."""

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
    brought: int
    """With what was given back since."""
    since: float


class MemoryBudget(Generic[K]):
    """At most `most_bytes`. Where they would be more, the slowest are put out.

    Slow is who has brought little for the time that it has held something: whoever holds much for long shuts
    out nobody, and a client that sends as fast as it can stays.
    """

    def __init__(
        self,
        most_bytes: int,
        put_out: Callable[[K], object],
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """`put_out` is called for each that has to go; it holds nothing any more then."""
        self._most_bytes = most_bytes
        self._put_out = put_out
        self._now_seconds = now_seconds
        self._held: dict[K, _Usage] = {}
        self.byte_count = 0

    def hold(self, holder: K, byte_count: int) -> None:
        """So many more."""
        held = self._held.get(holder)
        if held is None:
            self._held[holder] = _Usage(byte_count, byte_count, self._now_seconds())
        else:
            held.byte_count += byte_count
            held.brought += byte_count
        self.byte_count += byte_count
        if self.byte_count > self._most_bytes:
            self._make_room()

    def give_back(self, holder: K, byte_count: int) -> None:
        """So many less, of what it still holds."""
        held = self._held.get(holder)
        if held is None:
            return
        given = min(byte_count, held.byte_count)
        held.byte_count -= given
        self.byte_count -= given
        if not held.byte_count:
            del self._held[holder]

    def give_all_back(self, holder: K) -> None:
        """Idempotent."""
        if (held := self._held.pop(holder, None)) is not None:
            self.byte_count -= held.byte_count

    def _make_room(self) -> None:
        """Of many at once, where they are small: it looks at all of them."""
        now = self._now_seconds()

        def rate(holder: K) -> float:
            held = self._held[holder]
            return held.brought / max(now - held.since, 1e-6)

        gone = []
        for holder in sorted(self._held, key=rate):
            if self.byte_count <= self._most_bytes * 3 // 4:
                break
            if self.byte_count <= self._most_bytes < self._held[holder].byte_count * 4:
                continue  # it fits
            self.give_all_back(holder)
            gone.append(holder)
        for holder in gone:
            self._put_out(holder)


class RequestMemory(Generic[K]):
    """Of each request that isn't answered, oldest first, in bytes, which `room` counts for all connections.

    Adding to them may have `holder` put out.
    """

    def __init__(self, room: MemoryBudget[K], holder: K) -> None:
        self._room = room
        self._holder = holder
        self._each: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._each)

    def begin(self, byte_count: int) -> None:
        """One more, of which so much is kept."""
        self._each.append(0)
        if byte_count:
            self.grow(byte_count)

    def grow(self, byte_count: int) -> None:
        """So much more of the last one; nothing where that is answered, and read no more."""
        if self._each:
            self._change(-1, byte_count)

    def is_now(self, byte_count: int) -> None:
        """Of the oldest one just so much is kept."""
        if self._each:
            self._change(0, byte_count - self._each[0])

    def take(self, byte_count: int, left: int) -> None:
        """So much of the body of the oldest one isn't kept any more, so much is `left`: each at its cost."""
        if self._each and byte_count:
            cost = self._each[0]
            self._change(0, cost * left // (byte_count + left) - cost)

    def end(self, waiting: int) -> None:
        """The oldest ones are answered, all but so many."""
        while len(self._each) > waiting:
            self._room.give_back(self._holder, self._each.popleft())

    def forget(self) -> None:
        """Nothing is kept of any."""
        self._room.give_all_back(self._holder)
        self._each = deque([0] * len(self._each))

    def _change(self, place: int, byte_count: int) -> None:
        self._each[place] += byte_count
        if byte_count > 0:
            self._room.hold(self._holder, byte_count)
        else:
            self._room.give_back(self._holder, -byte_count)


class FrameMemory(Generic[K]):
    """Of a WebSocket: what has come of it, but for what was taken."""

    def __init__(self, room: MemoryBudget[K], holder: K) -> None:
        self._room = room
        self._holder = holder
        self.ends = FrameTracker()

    def feed(self, data: bytes) -> None:
        """What has come now. It may have `holder` put out."""
        self._room.hold(self._holder, self.ends.feed(data))

    def take(self) -> None:
        """The oldest message, or ping or pong, isn't kept any more."""
        if self.ends.whole:
            self._room.give_back(self._holder, self.ends.whole.popleft())

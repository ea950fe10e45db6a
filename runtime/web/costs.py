"""What a connection has its server keep of its requests, or of its frames. Pure."""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from headrace.runtime.web.frame_ends import FrameTracker
from headrace.runtime.web.room import MemoryBudget

K = TypeVar("K", bound=Hashable)


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

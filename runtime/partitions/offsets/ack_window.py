"""`ackWindowSize`: what a partition settled last stays uncommitted, so that a new owner repeats it."""

from collections import deque
from collections.abc import Iterable, Sequence


class AckWindow:
    """Holds back what was settled last. With size 0 it holds back nothing, at no cost."""

    __slots__ = ("_last",)

    def __init__(self, size: int) -> None:
        self._last: deque[int] = deque(maxlen=size)

    @property
    def size(self) -> int:
        """How many records it holds back at most; at 0 it need not be told."""
        return self._last.maxlen or 0

    def on_settled(self, offsets: Iterable[int]) -> None:
        """These were open, and now are not; the last of them is the newest."""
        self._last.extend(offsets)

    def on_reopened(self, first: int, end: int) -> None:
        """`[first, end)` is open again, and may be settled a second time."""
        if self._last:
            kept = [offset for offset in self._last if not first <= offset < end]
            self._last = deque(kept, maxlen=self._last.maxlen)

    def hold_back(
        self, committable: int, acked: Sequence[tuple[int, int]]
    ) -> tuple[int, list[tuple[int, int]]]:
        """The offset and the acked spans that a commit may say, without what is held back."""
        if not self._last:
            return committable, list(acked)
        held = deque(sorted(self._last))
        offset = min(committable, held[0])
        spans = []
        for first, end in ((offset, committable), *acked):
            at = first
            while held and held[0] < end:
                spans.append((at, held[0]))
                at = held.popleft() + 1
            spans.append((at, end))
        return offset, [(first, end) for first, end in spans if first < end]

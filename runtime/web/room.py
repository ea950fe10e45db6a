"""Bytes that all connections of a server hold together. Pure."""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

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

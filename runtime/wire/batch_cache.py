"""Which undecoded batches a worker process keeps. Both ends of its socket count by the same rule."""

from typing import Generic, TypeVar

T = TypeVar("T")

_MAX_BYTES = 2 << 20


class KeptBatches(Generic[T]):
    """Those that were used last, as many as fit; the last one always. None that was used to its end.

    Each end calls `get`, and `put` where that says None, once for each SLICE frame, in their order; then
    `drop` where that goes to the batch's end.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: dict[int, tuple[T, int]] = {}  # the last used is last
        self._size_bytes = 0

    def get(self, batch_id: int) -> T | None:
        """Use it; None where it isn't kept."""
        kept = self._kept.pop(batch_id, None)
        if kept is None:
            return None
        self._kept[batch_id] = kept
        return kept[0]

    def put(self, batch_id: int, batch: T, size_bytes: int) -> None:
        """Keep it from now on, and drop what doesn't fit any more."""
        self._kept[batch_id] = (batch, size_bytes)
        self._size_bytes += size_bytes
        while self._size_bytes > self._max_bytes and len(self._kept) > 1:
            _, dropped_bytes = self._kept.pop(next(iter(self._kept)))
            self._size_bytes -= dropped_bytes

    def drop(self, batch_id: int) -> None:
        """It was used to its end."""
        _, dropped_bytes = self._kept.pop(batch_id)
        self._size_bytes -= dropped_bytes

    def has_place_for(self, batch_id: int, size_bytes: int) -> bool:
        """Whether it is here, or can be without another one being dropped."""
        return batch_id in self._kept or self._size_bytes + size_bytes <= self._max_bytes or not self._kept

    def clear(self) -> None:
        """Another process, which has none."""
        self._kept.clear()
        self._size_bytes = 0

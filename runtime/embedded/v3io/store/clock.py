"""The time of writes."""

import time


class WriteClock:
    """Each time is later than all before, whatever the machine's clock does: conditions compare them."""

    def __init__(self, last_ns: int) -> None:
        self._last_ns = last_ns

    def next_ns(self) -> int:
        """Nanoseconds since 1970."""
        self._last_ns = max(time.time_ns(), self._last_ns + 1)
        return self._last_ns

"""When the next heartbeat is due. Pure."""

_QUICK_PARTS = 10
_QUICK_INTERVALS = 2
_UNKNOWN_SECONDS = 1.0


class Pace:
    """At the coordinator's interval; a tenth of it for two intervals after anything has moved.

    What others release is told in the next answer only, and they release something in the same moments.
    """

    def __init__(self) -> None:
        self.interval_seconds = _UNKNOWN_SECONDS
        self._quick_until = 0.0

    def moved(self, now: float) -> None:
        """Something came, went or was released, or this member has just joined."""
        self._quick_until = now + _QUICK_INTERVALS * self.interval_seconds

    def wait_seconds(self, now: float) -> float:
        """Until the next one."""
        return self.interval_seconds / (_QUICK_PARTS if now < self._quick_until else 1)

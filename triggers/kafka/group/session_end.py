"""Until when a group keeps a member. Pure."""


class SessionEnd:
    """It doesn't go silent for the session, and has released what was revoked within rebalanceTimeout.

    Both count from the sending of heartbeats: the coordinator starts its clocks later.
    """

    def __init__(self, rebalance_timeout_seconds: float) -> None:
        self.session_seconds = 0.0
        """The coordinator's."""
        self._rebalance_ns = int(rebalance_timeout_seconds * 1e9)
        self._settled_ns = 0

    def answered(self, sent_ns: int, *, was_revoking: bool) -> int:
        """When it ends, by the answer to what was sent then. `was_revoking`: more was to be released."""
        if not was_revoking:
            self._settled_ns = sent_ns
        session_end_ns = sent_ns + int(self.session_seconds * 1e9)
        return min(session_end_ns, self._settled_ns + self._rebalance_ns)

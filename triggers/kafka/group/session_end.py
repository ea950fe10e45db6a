"""Until when a group keeps a member. Pure."""


class SessionEnd:
    """It doesn't go silent for the session, and has released what was revoked within rebalanceTimeout.

    Both count from the sending of heartbeats: the coordinator starts its clocks later.
    """

    def __init__(self, rebalance_timeout_seconds: float) -> None:
        self.session_seconds = 0.0
        """The coordinator's."""
        self._rebalance_ns = int(rebalance_timeout_seconds * 1e9)
        self._revoked_ns: int | None = None

    def answered(self, sent_ns: int, *, is_revoking: bool) -> int:
        """When it ends, by the answer to what was sent then; `is_revoking`: something is to be released."""
        if not is_revoking:
            self._revoked_ns = None
        elif self._revoked_ns is None:
            self._revoked_ns = sent_ns
        end_ns = sent_ns + int(self.session_seconds * 1e9)
        return end_ns if self._revoked_ns is None else min(end_ns, self._revoked_ns + self._rebalance_ns)

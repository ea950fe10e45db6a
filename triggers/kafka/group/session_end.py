"""Until when a group keeps a member. Pure."""


class SessionDeadline:
    """It doesn't go silent for the session, and has released what was revoked within rebalanceTimeout.

    Both count from the sending of heartbeats: the coordinator starts its clocks later.
    """

    def __init__(self, rebalance_timeout_seconds: float) -> None:
        self.session_seconds = 0.0
        """The coordinator's."""
        self._rebalance_ns = int(rebalance_timeout_seconds * 1e9)
        self._sent_ns = self._settled_ns = 0
        self._unanswered_ns: int | None = None  # the first one since the last answer
        self._is_revoking = False

    def sent(self, now_ns: int, *, is_revoking: bool) -> None:
        """A heartbeat goes out. `is_revoking`: more is to be released."""
        self._sent_ns, self._is_revoking = now_ns, is_revoking
        if self._unanswered_ns is None:
            self._unanswered_ns = now_ns

    def join(self) -> None:
        """A new membership: nothing that was told to the one before counts."""
        self._unanswered_ns = None

    def answered(self) -> int:
        """When it ends, by the answer to the last one.

        The coordinator may have revoked something by an answer that has not come: to the first one since.
        """
        if not self._is_revoking and self._unanswered_ns is not None:
            self._settled_ns = self._unanswered_ns
        self._unanswered_ns = None
        session_end_ns = self._sent_ns + int(self.session_seconds * 1e9)
        return min(session_end_ns, self._settled_ns + self._rebalance_ns)

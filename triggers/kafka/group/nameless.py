"""Partitions of topics that a coordinator gives by an id of which no broker tells the name."""

import logging
from collections.abc import Set as AbstractSet

logger = logging.getLogger(__name__)

_PATIENCE_NS = 5 * 10**9
"""A topic that has just been made is known everywhere by then."""
_MOST_SHOWN = 3


class UnnamedTopics:
    """They wait until there is a name, and that is said once."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._since_ns: int | None = None
        self._is_said = False

    def look(self, topic_ids: AbstractSet[bytes], now_ns: int) -> None:
        """After each answer: the ids that are still without one."""
        if not topic_ids:
            self._since_ns, self._is_said = None, False
            return
        if self._since_ns is None:
            self._since_ns = now_ns
        if now_ns - self._since_ns >= _PATIENCE_NS and not self._is_said:
            self._is_said = True
            shown = ", ".join(it.hex() for it in sorted(topic_ids)[:_MOST_SHOWN])
            message = "group %s gives partitions of %d topics by ids that no broker has a name for (%s): %s"
            what = "nothing of them is read until one has"
            logger.warning(message, self._group, len(topic_ids), shown, what)

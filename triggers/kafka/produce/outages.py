"""Topics that can't be written to now: an outage of theirs, by which no record has failed."""

import asyncio
import logging
from contextlib import suppress

logger = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 1.0
_MAX_RETRY_SECONDS = 10.0
_MOST_LISTED = 5
WHAT_WAITS = "messages wait, and no record that has produced one is committed"


class _Outage:
    def __init__(self) -> None:
        self.why = ""
        self.wait_seconds = 0.0
        self.due = 0.0  # on the event loop's clock
        self.is_over = asyncio.Event()


class Outages:
    """Of one cluster. Each is said once, and when it is over; whoever writes waits for the next try."""

    def __init__(self) -> None:
        self._away: dict[str, _Outage] = {}

    def __bool__(self) -> bool:
        return bool(self._away)

    def __contains__(self, topic: object) -> bool:
        return topic in self._away

    def begin(self, topic: str, why: str) -> None:
        """It was tried. Those that were under way together count once."""
        outage, now = self._away.setdefault(topic, _Outage()), asyncio.get_running_loop().time()
        if why != outage.why:
            logger.warning("%s; %s; trying again", why, WHAT_WAITS)
            outage.why = why
        if now >= outage.due:
            doubled = max(_FIRST_RETRY_SECONDS, 2 * outage.wait_seconds)
            outage.wait_seconds = min(doubled, _MAX_RETRY_SECONDS)
            outage.due = now + outage.wait_seconds

    def end(self, topic: str) -> None:
        """It takes messages, or would. Nothing where it was never away."""
        if (outage := self._away.pop(topic, None)) is not None:
            outage.is_over.set()
            logger.info("topic %s takes messages now", topic)

    def is_due(self, topic: str) -> bool:
        """Whether it may be tried now."""
        outage = self._away.get(topic)
        return outage is None or asyncio.get_running_loop().time() >= outage.due

    def why(self, topic: str) -> str:
        """It is away; empty where it isn't."""
        outage = self._away.get(topic)
        return "" if outage is None else outage.why

    async def until_due(self, topic: str) -> None:
        """Wait until it may be tried, or is back."""
        if (outage := self._away.get(topic)) is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(outage.due):
                    await outage.is_over.wait()

    def problems(self) -> list[str]:
        """One line each, as far as they aren't too many."""
        lines = [outage.why for outage in self._away.values()]
        left = len(lines) - _MOST_LISTED
        return lines if left <= 0 else [*lines[:_MOST_LISTED], f"and {left} topics more"]

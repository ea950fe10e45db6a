"""The clocks that firings go by."""

import asyncio
import time
from typing import Protocol

from headrace.triggers.cron.timetable import ClockReading


class Clock(Protocol):
    """What the machine says of time. Tests have one that they turn."""

    def wall(self) -> float:
        """Seconds since 1970. May be set, both ways."""

    def monotonic(self) -> float:
        """Seconds that never go back, those that the machine sleeps included."""

    async def sleep(self, seconds: float) -> None:
        """For so long, if the machine doesn't sleep meanwhile."""


class MachineClock:
    """Keeps Clock."""

    def wall(self) -> float:
        """As Clock says."""
        return time.time()

    def monotonic(self) -> float:
        """As Clock says."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """As Clock says."""
        await asyncio.sleep(seconds)


def read_clock(clock: Clock) -> ClockReading:
    """Both clocks."""
    return ClockReading(clock.wall(), clock.monotonic())

"""A clock for one sleeper that stands until a test turns it. Keeps the cron trigger's Clock."""

import asyncio


class TurnedClock:
    def __init__(self, wall: float) -> None:
        self._monotonic = 100.0
        self._offset = wall - self._monotonic
        self._wakes_at = 0.0
        self._sleeper: asyncio.Future[None] | None = None
        self._is_asleep = asyncio.Event()

    def wall(self) -> float:
        return self._monotonic + self._offset

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        self._wakes_at = self._monotonic + seconds
        self._sleeper = asyncio.get_running_loop().create_future()
        self._is_asleep.set()
        await self._sleeper

    async def turn(self, seconds: float) -> None:
        """So much time passes. Who sleeps is woken on time, and sleeps again when this returns."""
        until = self._monotonic + seconds
        await self._is_asleep.wait()
        while self._wakes_at <= until:
            self._monotonic = self._wakes_at
            await self._wake()
        self._monotonic = until

    async def machine_sleeps(self, seconds: float) -> None:
        """So much time passes at once, and nobody is woken before it has."""
        await self._is_asleep.wait()
        self._monotonic += seconds
        await self._wake()

    async def step(self, seconds: float) -> None:
        """Somebody sets the wall clock; whoever sleeps notices within a second."""
        self._offset += seconds
        await self.turn(1)

    async def _wake(self) -> None:
        assert self._sleeper is not None, "somebody sleeps"
        self._is_asleep.clear()
        self._sleeper.set_result(None)
        await self._is_asleep.wait()

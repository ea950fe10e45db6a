"""What a processor says, asked from the admin server's thread."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headrace.runtime.admin.loop_watchdog import EventLoopWatchdog
from headrace.runtime.errors import HeadraceError
from headrace.runtime.processor.admin.reported import Action, StatusSource

T = TypeVar("T")

# A probe that waits longer has given up; an action may have to ask several replicas.
_LOOK_SECONDS, _ACT_SECONDS = 5.0, 15.0


class CrossThreadStatus:
    """Keeps StatusSource, for a thread other than that of the event loop which runs `reported`.

    Each question raises HeadraceError where that loop doesn't turn, or doesn't answer in time.
    """

    def __init__(
        self, reported: StatusSource, loop: asyncio.AbstractEventLoop, pulse: EventLoopWatchdog
    ) -> None:
        self._reported = reported
        self._loop = loop
        self._pulse = pulse

    async def problems(self) -> list[str]:
        """Also where nobody is there to say them."""
        try:
            return await self._ask(self._reported.problems)
        except HeadraceError as error:
            return [str(error)]

    async def status(self) -> dict[str, Any]:
        """As StatusSource says."""
        return await self._ask(self._reported.status)

    async def recent(self) -> dict[str, Any]:
        """As StatusSource says."""
        return await self._ask(self._reported.recent)

    async def metrics(self) -> bytes:
        """As StatusSource says."""
        return await self._ask(self._reported.metrics)

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """As StatusSource says."""
        return await self._ask(lambda: self._reported.act(action, topic, partition), _ACT_SECONDS)

    async def _ask(self, ask: Callable[[], Coroutine[Any, Any, T]], seconds: float = _LOOK_SECONDS) -> T:
        if problem := self._pulse.problem():
            raise HeadraceError(problem)
        asked = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask(), self._loop))
        try:
            return await asyncio.wait_for(asked, seconds)
        except TimeoutError:
            why = self._pulse.problem() or f"the event loop did not answer within {seconds:g} s"
            raise HeadraceError(why) from None

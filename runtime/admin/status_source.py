"""What an admin server shows: one processor, or a supervisor with the merged view of several."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, Protocol, TypeVar

from headrace.runtime.admin.loop_watchdog import EventLoopWatchdog
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.errors import HeadraceError
from headrace.runtime.log import LOG_TAIL

Action = Literal["retry", "skip"]


class NotHaltedError(HeadraceError):
    """The partition is here, and its records flow: there is nothing to retry or to skip."""

    exit_code = 5


class StatusSource(Protocol):
    """What the admin server shows: one processor, or a supervisor with the merged view of several."""

    async def problems(self) -> list[str]:
        """Why it isn't ready, one line each; empty when it is."""

    async def status(self) -> dict[str, Any]:
        """The body of /api/status."""

    async def recent(self) -> dict[str, Any]:
        """`replicas`: of each the last minutes of its triggers, and of its log, which may quote records."""

    async def metrics(self) -> bytes:
        """Prometheus text."""

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """Deliver a halted record once more, or go on behind it; what was done, one line per trigger.

        Empty where the partition isn't here. Raises NotHaltedError, or another HeadraceError for an outage.
        """


class StartingStatus:
    """Keeps admin.Reported: what `served` says, once it is there."""

    def __init__(self, functions: Sequence[FunctionSpec]) -> None:
        self._names = [function.name for function in functions]
        self.doing = ""
        """What is started now, where it may take long."""
        self.served: StatusSource | None = None

    @property
    def _starting(self) -> str:
        return f"starting: {self.doing}" if self.doing else "starting"

    async def problems(self) -> list[str]:
        """Why it isn't ready."""
        return await self.served.problems() if self.served else [self._starting]

    async def status(self) -> dict[str, Any]:
        """The functions, and no replica yet."""
        return await self.served.status() if self.served else {"functions": self._names, "replicas": []}

    async def recent(self) -> dict[str, Any]:
        """Only the log."""
        if self.served is None:
            return {"replicas": [{"name": "", "triggers": [], "log": LOG_TAIL.lines()}]}
        return await self.served.recent()

    async def metrics(self) -> bytes:
        """None yet."""
        return await self.served.metrics() if self.served else b""

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """Raises HeadraceError: nobody has a partition yet."""
        if self.served is None:
            raise HeadraceError(f"{self._starting}: no partition is here yet")
        return await self.served.act(action, topic, partition)


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

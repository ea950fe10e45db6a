"""Status of a run, as the admin server asks for it: its source, before there is one, and across threads."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, Protocol, TypeVar

from headrace.runtime.admin.loop_watchdog import EventLoopWatchdog
from headrace.runtime.errors import HeadraceError
from headrace.runtime.log import LOG_TAIL

Action = Literal["retry", "skip"]
T = TypeVar("T")

# A probe that waits longer has given up; an action may have to ask several replicas.
_STATUS_SECONDS, _ACT_SECONDS = 5.0, 15.0


class NotHaltedError(HeadraceError):
    """The partition is here, and its records flow: there is nothing to retry or to skip."""

    exit_code = 5


class StatusSource(Protocol):
    """Source of a run's status: one processor, or a supervisor with the merged view of several.

    The admin server is its only caller. Every method may raise HeadraceError: the status can't be had now.
    """

    async def problems(self) -> list[str]:
        """Return why the run isn't ready, one line each; empty when it is."""

    async def status(self) -> dict[str, Any]:
        """Return the body of /api/status: JSON types only."""

    async def recent(self) -> dict[str, Any]:
        """Return the body of /api/recent: by replica, the last minutes of its triggers and its log.

        The log may quote records.
        """

    async def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format."""

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """Deliver a halted record again, or go on behind it. Return what was done, line by line.

        Empty where the partition isn't here. Raises NotHaltedError, or another HeadraceError for an outage.
        """


class StartingStatus:
    """Status of a run from its first moment: `starting`, until there is a processor or supervisor to ask."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are those of the functions that start."""
        self._names = list(names)
        self._step = ""
        self._source: StatusSource | None = None

    def enter(self, step: str) -> None:
        """Name what is started now, where it may take long; empty for what is quick."""
        self._step = step

    def hand_over(self, source: StatusSource) -> None:
        """Have `source` asked from now on."""
        self._source = source

    @property
    def step(self) -> str:
        """The step of the start that goes on now."""
        return self._step

    @property
    def _starting(self) -> str:
        return f"starting: {self._step}" if self._step else "starting"

    async def problems(self) -> list[str]:
        """Return that the run is starting, or the source's problems."""
        return await self._source.problems() if self._source else [self._starting]

    async def status(self) -> dict[str, Any]:
        """Return the functions without a replica, or the source's status."""
        return await self._source.status() if self._source else {"functions": self._names, "replicas": []}

    async def recent(self) -> dict[str, Any]:
        """Return the log alone, or what the source has."""
        if self._source is None:
            return {"replicas": [{"name": "", "triggers": [], "log": LOG_TAIL.lines()}]}
        return await self._source.recent()

    async def metrics(self) -> bytes:
        """Return no metrics, or the source's."""
        return await self._source.metrics() if self._source else b""

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """Pass on the action. Raises HeadraceError while there is no partition yet."""
        if self._source is None:
            raise HeadraceError(f"{self._starting}: no partition is here yet")
        return await self._source.act(action, topic, partition)


class CrossThreadStatus:
    """Status of a source on another event loop: each question is run there, and answered here.

    The admin server's thread asks, so that /live is answered even while the run's own loop hangs. A question
    raises HeadraceError where that loop doesn't turn, or doesn't answer in time.
    """

    def __init__(
        self, source: StatusSource, loop: asyncio.AbstractEventLoop, watchdog: EventLoopWatchdog
    ) -> None:
        """`watchdog` watches over `loop`, which runs `source`."""
        self._source = source
        self._loop = loop
        self._watchdog = watchdog

    async def problems(self) -> list[str]:
        """Return the source's problems, or why it can't be asked: a probe gets an answer in any case."""
        try:
            return await self._ask(self._source.problems)
        except HeadraceError as error:
            return [str(error)]

    async def status(self) -> dict[str, Any]:
        """Return the source's status."""
        return await self._ask(self._source.status)

    async def recent(self) -> dict[str, Any]:
        """Return the source's last minutes."""
        return await self._ask(self._source.recent)

    async def metrics(self) -> bytes:
        """Return the source's metrics."""
        return await self._ask(self._source.metrics)

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """Have the source retry or skip."""
        return await self._ask(lambda: self._source.act(action, topic, partition), _ACT_SECONDS)

    async def _ask(self, ask: Callable[[], Coroutine[Any, Any, T]], seconds: float = _STATUS_SECONDS) -> T:
        # A loop that hangs would take the question and never answer it: say so at once.
        if problem := self._watchdog.problem():
            raise HeadraceError(problem)
        answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask(), self._loop))
        try:
            # Given up here, the question is cancelled on its own loop, too.
            return await asyncio.wait_for(answer, seconds)
        except TimeoutError:
            why = self._watchdog.problem() or f"the event loop did not answer within {seconds:g} s"
            raise HeadraceError(why) from None

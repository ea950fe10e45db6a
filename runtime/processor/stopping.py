"""Stop of the whole run: by whom it is asked for, and what it ends."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from headrace.runtime.errors import HeadraceError
from headrace.runtime.processes import stop_signals

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Stopping:
    """Request to stop the run, by a signal or the supervisor's end. Made on the loop that serves the signals.

    A second signal ends the process at once, and before it what is registered by `killing`.
    """

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        """Set once a stop is asked for."""
        self._has_been_up: Callable[[], bool] = lambda: False
        self._kills: list[Callable[[], None]] = []

    def ask_whether_up(self, has_been_up: Callable[[], bool]) -> None:
        """Have `has_been_up` tell from now on whether handlers may have run."""
        self._has_been_up = has_been_up

    def is_up(self) -> bool:
        """Whether handlers may have run: then they get time to finish."""
        return self._has_been_up()

    def on_signals(self) -> None:
        """Stop on any of `stop_signals`."""
        for signum in stop_signals():
            asyncio.get_running_loop().add_signal_handler(signum, self._on_signal, signum)

    def with_supervisor(self) -> None:
        """Stop because the supervisor stops, or is gone."""
        logger.info("stopping, as the run does; %s", self._consequence())
        self.requested.set()

    @contextmanager
    def killing(self, kill: Callable[[], None]) -> Iterator[None]:
        """Have `kill` called at a second signal while the context lasts, for what would outlive the process.

        It may block.
        """
        self._kills.append(kill)
        try:
            yield
        finally:
            self._kills.remove(kill)

    async def unless_requested(self, start: Coroutine[Any, Any, T]) -> T | None:
        """Return what `start` does; None where a stop is asked for first, which cancels it."""
        starting = asyncio.create_task(start)
        stopping = asyncio.create_task(self.requested.wait())
        try:
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not self.requested.is_set():
                return starting.result()
            starting.cancel()
            # Half-started servers may fail as they are cancelled: nobody waits for them any more.
            with contextlib.suppress(asyncio.CancelledError, HeadraceError):
                await starting
            return None
        finally:
            stopping.cancel()

    def _on_signal(self, signum: signal.Signals) -> None:
        if not self.requested.is_set():
            logger.info("%s: stopping; %s; a second one ends it at once", signum.name, self._consequence())
            self.requested.set()
        elif signum != signal.SIGHUP:  # a closing terminal sends two of these: the shell's and the kernel's
            logger.warning(
                "second %s: stopping at once, uncommitted records are delivered again", signum.name
            )
            for kill in reversed(self._kills):  # the last started first
                kill()
            # By hand, as os._exit flushes nothing. A shell's exit code for what a signal has ended follows.
            logging.shutdown()
            os._exit(128 + signum)  # workers die with this process

    def _consequence(self) -> str:
        return (
            "handlers get workerTerminationTimeout to finish" if self.is_up() else "what is starting is ended"
        )


def until_signal(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` until Ctrl-C, SIGTERM or a closed terminal. It closes what it holds; exit code 0."""

    async def guarded() -> None:
        task = asyncio.ensure_future(main)
        for number in stop_signals():  # once: a second one would cancel what closes
            asyncio.get_running_loop().add_signal_handler(number, lambda: task.cancelling() or task.cancel())
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(guarded())

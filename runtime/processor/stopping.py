"""A stop of the whole run: who asks for it, and what it ends."""

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
    """Asked for by a signal, or by the supervisor's end. Made in the event loop that serves the signals.

    A second signal ends the process at once, and before it what was told of by `killing`.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.is_up: Callable[[], bool] = lambda: False
        """Whether handlers may have run. Its owner sets it."""
        self._kills: list[Callable[[], None]] = []

    def on_signals(self) -> None:
        """By `stop_signals`."""
        for signum in stop_signals():
            asyncio.get_running_loop().add_signal_handler(signum, self._on_signal, signum)

    def with_supervisor(self) -> None:
        """The supervisor stops, or is gone."""
        logger.info("stopping, as the run does; %s", self._consequence())
        self.asked.set()

    @contextmanager
    def killing(self, kill: Callable[[], None]) -> Iterator[None]:
        """While this lasts, `kill` ends what would outlive the process or leave something. It may block."""
        self._kills.append(kill)
        try:
            yield
        finally:
            self._kills.remove(kill)

    async def unless_asked(self, start: Coroutine[Any, Any, T]) -> T | None:
        """What `start` returns; None where a stop is asked for before, which cancels it."""
        starting = asyncio.create_task(start)
        stopping = asyncio.create_task(self.asked.wait())
        try:
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not self.asked.is_set():
                return starting.result()
            starting.cancel()
            # What it had begun may fail now: nobody waits for it any more.
            with contextlib.suppress(asyncio.CancelledError, HeadraceError):
                await starting
            return None
        finally:
            stopping.cancel()

    def _on_signal(self, signum: signal.Signals) -> None:
        if not self.asked.is_set():
            logger.info("%s: stopping; %s; a second one ends it at once", signum.name, self._consequence())
            self.asked.set()
        elif signum != signal.SIGHUP:  # of which a closing terminal sends two: the shell's and the kernel's
            logger.warning(
                "second %s: stopping at once, uncommitted records are delivered again", signum.name
            )
            for kill in reversed(self._kills):
                kill()
            logging.shutdown()
            os._exit(128 + signum)  # workers die with this process

    def _consequence(self) -> str:
        return (
            "handlers get workerTerminationTimeout to finish" if self.is_up() else "what is starting is ended"
        )


def until_signal(main: Coroutine[Any, Any, None]) -> None:
    """Run `main`; Ctrl-C, SIGTERM and a closed terminal end it: what it holds closes, exit 0."""

    async def guarded() -> None:
        task = asyncio.ensure_future(main)
        for number in stop_signals():  # once: a second one would cancel what closes
            asyncio.get_running_loop().add_signal_handler(number, lambda: task.cancelling() or task.cancel())
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(guarded())

"""Admin server, on a thread of its own: it answers even when the event loop of the run doesn't turn."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from headrace.runtime.admin.loop_watchdog import EventLoopWatchdog
from headrace.runtime.admin.routes import application, guarded
from headrace.runtime.admin.status_source import CrossThreadStatus, StatusSource
from headrace.runtime.admin.token import NO_TOKEN, AdminToken
from headrace.runtime.tasks import end_tasks, start_task
from headrace.runtime.web.addresses import TcpAddress
from headrace.runtime.web.cross_origin import CrossOriginGuard
from headrace.runtime.web.limits import Limits
from headrace.runtime.web.server import Server

MOST_CONNECTIONS = 64
IDLE_SECONDS = 10.0
_STOP_SECONDS = 60.0


T = TypeVar("T")


@asynccontextmanager
async def admin_server(
    source: StatusSource, address: TcpAddress | Path, token: AdminToken = NO_TOKEN
) -> AsyncIterator[str]:
    """Serve while the context lasts; yields the URL, or a Unix socket's path. Raises UsageError.

    `source` is asked on the event loop that this is entered on.
    """
    with EventLoopWatchdog() as watchdog, LoopThread("headrace-admin") as thread:
        status = CrossThreadStatus(source, asyncio.get_running_loop(), watchdog)
        stack = AsyncExitStack()
        try:
            # The server lives on the thread's loop: it starts there, and so it has to stop there.
            yield await thread.run(stack.enter_async_context(_served(status, watchdog, address, token)))
        finally:
            await thread.run(stack.aclose())


@asynccontextmanager
async def _served(
    source: StatusSource, watchdog: EventLoopWatchdog, address: TcpAddress | Path, token: AdminToken
) -> AsyncIterator[str]:
    # Web pages reach TCP alone: the Unix socket of a replica needs no guard against other sites.
    guards = [guarded(CrossOriginGuard(address.host))] if isinstance(address, TcpAddress) else []
    limits = Limits(MOST_CONNECTIONS, IDLE_SECONDS, evicts_asking=True)
    server = Server(application(source, watchdog.problem, token, guards), limits)
    watch = start_task(watchdog.watch_forever(), "the watch over the event loop")
    try:
        if isinstance(address, Path):
            await server.listen_at(address)
            yield str(address)
        else:
            instead = "choose another port with --admin-port, or 0 for a free one"
            await server.listen(address.host, address.port, who="the admin server", instead=instead)
            yield server.url
    finally:
        await server.stop(_STOP_SECONDS)
        await end_tasks([watch])


class LoopThread:
    """Event loop on a thread of its own, for as long as the context lasts. Nothing on it outlives that."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        # As a daemon: where the context isn't left, the thread must not keep the process.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the thread's loop, and await it on the caller's."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

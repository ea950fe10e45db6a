"""The admin server: listens from a thread of its own, so that it answers when the event loop doesn't turn."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from aiohttp import web

from headrace.runtime.connections import Connections
from headrace.runtime.errors import UsageError
from headrace.runtime.processor.admin.across import Across
from headrace.runtime.processor.admin.loop_thread import LoopThread
from headrace.runtime.processor.admin.pulse import Pulse
from headrace.runtime.processor.admin.reported import Reported
from headrace.runtime.processor.admin.routes import application, guarded
from headrace.runtime.processor.admin.token import NO_TOKEN, AdminToken
from headrace.runtime.tasks import end_tasks, start_task
from headrace.runtime.web.guard import Guard
from headrace.runtime.web.hosts import TcpAddress

BACKLOG = 64
MOST_CONNECTIONS = 64
IDLE_SECONDS = 10.0


@asynccontextmanager
async def admin_server(
    reported: Reported, address: TcpAddress | Path, token: AdminToken = NO_TOKEN
) -> AsyncIterator[str]:
    """Serve while the context lasts; yields the URL, or a Unix socket's path. Raises UsageError.

    `reported` is asked on the event loop that this is entered on.
    """
    with Pulse() as pulse, LoopThread("headrace-admin") as thread:
        across = Across(reported, asyncio.get_running_loop(), pulse)
        stack = AsyncExitStack()
        try:
            yield await thread.run(stack.enter_async_context(_served(across, pulse, address, token)))
        finally:
            await thread.run(stack.aclose())


@asynccontextmanager
async def _served(
    reported: Reported, pulse: Pulse, address: TcpAddress | Path, token: AdminToken
) -> AsyncIterator[str]:
    guards = [guarded(Guard(address.host))] if isinstance(address, TcpAddress) else []
    connections = Connections(MOST_CONNECTIONS, IDLE_SECONDS, evicts_asking=True)
    made = application(reported, pulse.problem, token, [connections.middleware, *guards])
    runner = web.AppRunner(made, access_log=None)
    watch = start_task(pulse.watch_forever(), "the watch over the event loop")
    await runner.setup()
    assert runner.server is not None
    try:
        listening = await _listen(partial(connections.protocol, runner.server), address)
        try:
            yield str(address) if isinstance(address, Path) else _url(listening)
        finally:
            listening.close()
    finally:
        await runner.cleanup()
        await end_tasks([watch])


async def _listen(protocol: Callable[[], asyncio.Protocol], address: TcpAddress | Path) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    if isinstance(address, Path):
        return await loop.create_unix_server(protocol, str(address), backlog=BACKLOG)
    try:
        return await loop.create_server(protocol, address.host, address.port, backlog=BACKLOG)
    except OSError as error:
        raise UsageError(
            f"the admin server can't listen on {address.host}:{address.port} ({error.strerror or error}): "
            "choose another port with --admin-port, or 0 for a free one"
        ) from None


def _url(listening: asyncio.Server) -> str:
    host, port = listening.sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

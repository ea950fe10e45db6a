"""How many connections the admin server keeps, and how long one may be silent: they cost descriptors."""

import asyncio
from typing import cast

from aiohttp import web
from aiohttp.typedefs import Handler

MOST = 64
IDLE_SECONDS = 10.0


class Connections:
    """At most MOST. One that asks nothing for IDLE_SECONDS is ended, a head that comes slowly too.

    Where a new one finds no room, the one that has been silent longest makes it: whoever holds many
    connections open shuts out no probe.
    """

    def __init__(self) -> None:
        self._idle: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}  # in the order of their last word
        self._asking: dict[asyncio.BaseTransport | None, None] = {}

    def protocol(self, server: web.Server) -> asyncio.Protocol:
        """For one connection that `server` answers."""
        return _Connection(self, server())

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Tells when a connection has asked, and when it was answered."""
        transport = request.transport
        if transport in self._idle:
            self._idle.pop(transport).cancel()
            self._asking[transport] = None
        try:
            return await handler(request)
        finally:
            if transport in self._asking:
                del self._asking[transport]
                self._wait(cast("asyncio.Transport", transport))

    def on_made(self, transport: asyncio.Transport) -> None:
        """Make room for it."""
        if len(self._idle) + len(self._asking) >= MOST:
            _abort(next(iter(self._idle or self._asking)), self)
        self._wait(transport)

    def on_lost(self, transport: asyncio.BaseTransport | None) -> None:
        """Forget it. Idempotent."""
        self._asking.pop(transport, None)
        if transport in self._idle:
            self._idle.pop(transport).cancel()

    def _wait(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        self._idle[transport] = loop.call_later(IDLE_SECONDS, _abort, transport, self)


def _abort(transport: asyncio.BaseTransport | None, connections: Connections) -> None:
    connections.on_lost(transport)
    cast("asyncio.Transport", transport).abort()


class _Connection(asyncio.Protocol):
    """Hands everything on to aiohttp's."""

    def __init__(self, connections: Connections, inner: web.RequestHandler) -> None:
        self._connections = connections
        self._transport: asyncio.BaseTransport | None = None
        self._inner = inner
        self.data_received = inner.data_received  # type: ignore[method-assign]  # once per packet
        self.eof_received = inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.on_made(cast("asyncio.Transport", transport))
        self._inner.connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.on_lost(self._transport)
        self._inner.connection_lost(exc)

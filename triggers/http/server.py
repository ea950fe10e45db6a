"""The listening side of an http trigger: aiohttp's server, with bounds on all that a client can do to it."""

import asyncio
import logging
import os
import resource
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiohttp import web

from headrace.runtime.connections import Connections
from headrace.runtime.errors import UsageError
from headrace.triggers.http.settings import HttpSettings

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

BACKLOG = 1024
IDLE_SECONDS = 75.0  # longer than most clients keep a connection, and than a head may take
BODY_SECONDS = 60.0
"""How long the body of a request may take to come."""
_MOST_CONNECTIONS = 4096
_LINGER_SECONDS = 2.0  # for what a refused client still sends

# aiohttp's own lines would have a traceback for every malformed request.
_silent = logging.getLogger("headrace.http.aiohttp")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class Server:
    """Answers by `handle`, which raises nothing but CancelledError, where the client has gone."""

    def __init__(self, settings: HttpSettings, handle: Handle) -> None:
        self._settings = settings
        self._handle = handle
        self._connections = Connections(_most_connections(), IDLE_SECONDS, evicts_asking=False)
        self._listening: asyncio.Server | None = None
        self._server: web.Server | None = None
        self.url = ""
        """Where it listens, once it does."""

    async def start(self, trigger: str, *, is_shared: bool) -> None:
        """Listen. `is_shared`: other replicas do too, on the same port. Raises UsageError."""
        make: Any = web.BaseRequest
        loop, most = asyncio.get_running_loop(), self._settings.max_request_body_size
        self._server = web.Server(
            self._answer,
            request_factory=lambda *parts: make(*parts, loop, client_max_size=most),
            handler_cancellation=True,
            access_log=None,
            logger=_silent,
            auto_decompress=False,  # handlers see what was sent, as Nuclio's do, and a bomb stays small
            max_line_size=self._settings.read_buffer_size,
            max_field_size=self._settings.read_buffer_size,
            lingering_time=_LINGER_SECONDS,
        )
        host, port = self._settings.host, self._settings.port
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                partial(self._connections.protocol, self._server),
                host,
                port,
                backlog=BACKLOG,
                reuse_port=is_shared or None,
            )
        except OSError as error:
            where, attribute = f"{host}:{port}", f"triggers.{trigger}.attributes.port"
            raise UsageError(
                f"trigger {trigger} can't listen on {where} ({_why(error)}): choose another port with"
                f" --set {attribute}=..., 0 for a free one"
            ) from None
        self.url = _url(self._listening)

    def refuse_connections(self) -> None:
        """No new ones. Idempotent."""
        if self._listening is not None:
            self._listening.close()

    async def stop(self, wait_seconds: float) -> None:
        """Let what is answered leave, then end all connections. Idempotent."""
        self.refuse_connections()
        if self._server is not None:
            await self._server.shutdown(wait_seconds)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        self._connections.on_asked(transport)
        try:
            return await self._handle(request)
        finally:
            self._connections.on_answered(transport)


def _most_connections() -> int:
    """Half of the descriptors that this process may have: the rest is for workers and sources."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(_MOST_CONNECTIONS, soft // 2) if soft > 0 else _MOST_CONNECTIONS


def _why(error: OSError) -> str:
    """In the system's words; asyncio puts its own before them, and names that aren't found have no number."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)


def _url(listening: asyncio.Server) -> str:
    host, port = listening.sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

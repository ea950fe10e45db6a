"""An HTTP server: aiohttp's, with limits on what all its clients can do to it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import HttpVersion10, HttpVersion11, web

from headrace.runtime.web.addresses import listen_error
from headrace.runtime.web.connection import LINGER_SECONDS, Connection
from headrace.runtime.web.limits import Limits, SharedLimits
from headrace.runtime.web.refusals import SERVER, FinalResponse, RefusedError, malformed

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_VERSIONS = (HttpVersion11, HttpVersion10)
_NO_METHODS = frozenset({"CONNECT", "TRACE"})
_ALLOWED = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
BACKLOG = 1024
_LOGGER = logging.getLogger(__name__)


class Server:
    """An HTTP server that answers by an aiohttp application, or by a function from request to response.

    `listen` or `listen_at` starts it. `stop` has to follow, however that has ended.
    """

    def __init__(
        self,
        answers: web.Application | Handle,
        limits: Limits,
        *,
        cancels: bool = False,
    ) -> None:
        """`limits` bound what clients may have the server keep.

        With `cancels` the handler of a request is cancelled where its client has gone.
        """
        self._answers = answers
        self._limits: SharedLimits[Connection] = SharedLimits(
            limits,
            abort=Connection.abort,
            refuse_body=Connection.refuse_body,
            end_socket=Connection.end_socket,
            check_rate=Connection.check_rate,
        )
        self._cancels = cancels
        self._max_head_bytes = limits.most_head_bytes
        self._listening: asyncio.Server | None = None
        self._runner: web.AppRunner | None = None
        self._server: web.Server | None = None
        self.url = ""
        """URL of the server, once it listens; empty for a Unix socket."""

    async def listen(self, host: str, port: int, *, who: str, instead: str, is_shared: bool = False) -> None:
        """Listen at `host` and `port`; port 0 takes a free one, `is_shared` one that others share.

        Raises ListenError, one line: that `who` can't listen, why, and what to do `instead`.
        """
        protocol = await self._protocol()
        try:
            self._listening = await listen_on(protocol, host, port, is_shared=is_shared)
        except OSError as error:
            raise listen_error(error, host, port, who=who, instead=instead) from None
        self.url = url_of(self._listening)

    async def listen_at(self, path: Path) -> None:
        """Listen on a Unix socket at `path`. Raises OSError."""
        loop, protocol = asyncio.get_running_loop(), await self._protocol()
        self._listening = await loop.create_unix_server(protocol, str(path), backlog=BACKLOG)

    def refuse_connections(self) -> None:
        """Accept no new connections. Idempotent."""
        if self._listening is not None:
            self._listening.close()

    async def stop(self, wait_seconds: float) -> None:
        """Wait up to `wait_seconds` for requests that are being answered, then end all connections.

        Idempotent.
        """
        self.refuse_connections()
        if self._server is not None:
            await self._server.shutdown(wait_seconds)
        if self._runner is not None:
            await self._runner.cleanup()

    async def _protocol(self) -> Callable[[], Connection]:
        """Return what makes the protocol of each new connection."""
        if isinstance(self._answers, web.Application):
            self._answers.on_response_prepare.append(_set_server_header)
            self._runner = web.AppRunner(self._answers, handler_cancellation=self._cancels)
            await self._runner.setup()
            assert self._runner.server is not None
            self._server = self._runner.server
        else:
            make: Any = web.BaseRequest
            loop = asyncio.get_running_loop()
            self._server = web.Server(
                _with_server_header(self._answers),
                request_factory=lambda *parts: make(*parts, loop),
                handler_cancellation=self._cancels,
            )
        # In front of aiohttp's own handler: so an application's requests are checked and counted, too.
        self._server.request_handler = partial(self._answer, self._server.request_handler)
        return partial(
            Connection,
            self._server,
            self._limits,
            loop=asyncio.get_running_loop(),
            access_log=None,
            logger=_LOGGER,
            auto_decompress=False,  # handlers see what was sent, and a bomb stays small
            max_line_size=self._max_head_bytes,
            max_field_size=self._max_head_bytes,
            lingering_time=LINGER_SECONDS,
        )

    async def _answer(self, handle: Handle, request: web.BaseRequest) -> web.StreamResponse:
        transport, connection = request.transport, request.protocol
        assert isinstance(connection, Connection)
        self._limits.connections.on_asked(transport)
        try:
            _check(request)
            return await handle(request)
        except RefusedError as refused:
            return FinalResponse(refused, connection.linger)
        finally:
            self._limits.connections.on_answered(transport)
            connection.on_answered()


def _check(request: web.BaseRequest) -> None:
    """Raise RefusedError for a version or a method that no server of ours answers."""
    if request.version not in _VERSIONS:
        raise malformed()
    if request.method in _NO_METHODS:
        raise RefusedError(405, "not a method of this server", {"Allow": _ALLOWED})


def _with_server_header(handle: Handle) -> Handle:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = await handle(request)
        # The headers of a prepared one have been sent.
        if not response.prepared:
            response.headers.setdefault("Server", SERVER)
        return response

    return answer


async def _set_server_header(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = SERVER  # aiohttp's own name stands there by now


async def listen_on(
    protocol: Callable[[], asyncio.Protocol], host: str, port: int, *, is_shared: bool
) -> asyncio.Server:
    """Listen, on a port that other processes share if `is_shared`. Raises OSError."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(protocol, host, port, backlog=BACKLOG, reuse_port=is_shared or None)


def url_of(listening: asyncio.Server) -> str:
    """Return a server's URL, with the port that it got."""
    host, port = listening.sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

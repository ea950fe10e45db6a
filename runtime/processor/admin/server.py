"""The admin server: /live, /ready, /metrics, /api/status, and what an operator may do to a partition."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, Protocol, cast
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from headrace.runtime.connections import Connections
from headrace.runtime.errors import HeadraceError, UsageError
from headrace.runtime.processor.admin.token import NO_TOKEN, AdminToken

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BACKLOG = 64
MOST_CONNECTIONS = 64
IDLE_SECONDS = 10.0

Action = Literal["retry", "skip"]

_PART = r"(?!\.\.?(?:/|$))[A-Za-z0-9._-]+"
NAME = rf"{_PART}(?:/{_PART})*"
"""A topic's, as a pattern. Kafka's have no slash, those of other kinds may."""


class NotHaltedError(HeadraceError):
    """The partition is here, and its records flow: there is nothing to retry or to skip."""

    exit_code = 5


class Reported(Protocol):
    """What the admin server shows: one processor, or a supervisor with the merged view of several."""

    async def problems(self) -> list[str]:
        """Why it isn't ready, one line each; empty when it is."""

    async def status(self) -> dict[str, Any]:
        """The body of /api/status."""

    async def metrics(self) -> bytes:
        """Prometheus text."""

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        """Deliver a halted record once more, or go on behind it; what was done, one line per trigger.

        Empty where the partition isn't here. Raises NotHaltedError, or another HeadraceError for an outage.
        """


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """Where people and probes reach it. Port 0 takes a free one."""

    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


@asynccontextmanager
async def admin_server(
    reported: Reported, address: TcpAddress | Path, token: AdminToken = NO_TOKEN
) -> AsyncIterator[str]:
    """Serve while the context lasts; yields the URL, or a Unix socket's path. Raises UsageError."""
    names = [_refuse_foreign_names] if isinstance(address, TcpAddress) and address.is_local else []
    connections = Connections(MOST_CONNECTIONS, IDLE_SECONDS, evicts_asking=True)
    application = _application(reported, token, [connections.middleware, *names])
    runner = web.AppRunner(application, access_log=None)
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


def _application(reported: Reported, token: AdminToken, names: Sequence[Middleware]) -> web.Application:
    async def live(_: web.Request) -> web.Response:
        return web.json_response({"status": "live"})

    async def ready(_: web.Request) -> web.Response:
        problems = await reported.problems()
        body = {"status": "not ready" if problems else "ready", "problems": problems}
        return web.json_response(body, status=503 if problems else 200)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=await reported.metrics(), headers={"Content-Type": _METRICS_TYPE})

    async def status(request: web.Request) -> web.Response:
        found = await reported.status()
        return web.json_response(_without_reasons(found) if token.refusal(request.headers) else found)

    async def act(request: web.Request) -> web.Response:
        if refusal := token.refusal(request.headers):
            return _problem(401, refusal, {"WWW-Authenticate": "Bearer"})
        return await _act(reported, request)

    application = web.Application(middlewares=names)
    application.add_routes(
        [
            web.get("/live", live),
            web.get("/ready", ready),
            web.get("/metrics", metrics),
            web.get("/api/status", status),
            # Nothing that is encoded: it would be read as one thing here, and as another behind a proxy.
            web.post(
                rf"/api/partitions/{{topic:{NAME}}}/{{partition:[0-9]{{1,9}}}}/{{action:retry|skip}}", act
            ),
        ]
    )
    return application


@web.middleware
async def _refuse_foreign_names(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A page may have its own domain point at 127.0.0.1: to the browser this is the page's server then."""
    try:
        name = urlsplit(f"//{request.host}").hostname
    except ValueError:
        name = None
    if name is None or not is_loopback(name):
        return _problem(403, f"{request.host!r} is no name of this machine's own, such as localhost")
    return await handler(request)


def _without_reasons(status: dict[str, Any]) -> dict[str, Any]:
    """What handlers have said may quote their records: it is for those who have the token."""
    for replica in status["replicas"]:
        for trigger in replica["triggers"]:
            for row in trigger["partitions"]:
                row["reason"] = None
    return status


def is_loopback(host: str) -> bool:
    """Whether only this machine is meant."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _act(reported: Reported, request: web.Request) -> web.Response:
    # A page in a browser on this machine may post anything but this type without asking first; when it asks,
    # nothing here says yes.
    if request.content_type != "application/json":
        return _problem(415, "Content-Type has to be application/json")
    topic, partition = request.match_info["topic"], int(request.match_info["partition"])
    action = cast("Action", request.match_info["action"])
    try:
        done = await reported.act(action, topic, partition)
    except NotHaltedError as error:
        return _problem(409, str(error))
    except HeadraceError as error:
        return _problem(503, str(error))
    if not done:
        return _problem(404, f"{topic}/{partition} is not among the partitions of this function")
    return web.json_response({"done": done})


def _problem(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"problem": text}, status=status, headers=headers)

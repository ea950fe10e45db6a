"""The admin server: /live, /ready, /metrics, /api/status."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from aiohttp import web

from headrace.runtime.errors import UsageError

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Reported(Protocol):
    """What the admin server shows: one processor, or a supervisor with the merged view of several."""

    async def problems(self) -> list[str]:
        """Why it isn't ready, one line each; empty when it is."""

    async def status(self) -> dict[str, Any]:
        """The body of /api/status."""

    async def metrics(self) -> bytes:
        """Prometheus text."""


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """Where people and probes reach it. Port 0 takes a free one."""

    host: str
    port: int


@asynccontextmanager
async def admin_server(reported: Reported, address: TcpAddress | Path) -> AsyncIterator[str]:
    """Serve while the context lasts; yields the URL, or a Unix socket's path. Raises UsageError."""
    runner = web.AppRunner(_application(reported), access_log=None)
    await runner.setup()
    try:
        yield await _listen(runner, address)
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, address: TcpAddress | Path) -> str:
    if isinstance(address, Path):
        await web.UnixSite(runner, str(address)).start()
        return str(address)
    try:
        await web.TCPSite(runner, address.host, address.port).start()
    except OSError as error:
        raise UsageError(
            f"the admin server can't listen on {address.host}:{address.port} ({error.strerror or error}): "
            "choose another port with --admin-port, or 0 for a free one"
        ) from None
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"


def _application(reported: Reported) -> web.Application:
    async def live(_: web.Request) -> web.Response:
        return web.json_response({"status": "live"})

    async def ready(_: web.Request) -> web.Response:
        problems = await reported.problems()
        body = {"status": "not ready" if problems else "ready", "problems": problems}
        return web.json_response(body, status=503 if problems else 200)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=await reported.metrics(), headers={"Content-Type": _METRICS_TYPE})

    async def status(_: web.Request) -> web.Response:
        return web.json_response(await reported.status())

    application = web.Application()
    application.add_routes(
        [
            web.get("/live", live),
            web.get("/ready", ready),
            web.get("/metrics", metrics),
            web.get("/api/status", status),
        ]
    )
    return application

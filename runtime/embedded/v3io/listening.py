"""The listening side: a server, bare of routes."""

import asyncio

from headrace.runtime.embedded.ports import HOST
from headrace.runtime.embedded.v3io.api import MOST_BODY_BYTES, Api
from headrace.runtime.web.limits import Limits
from headrace.runtime.web.server import Server

_IDLE_SECONDS = 600.0
_STOP_SECONDS = 2.0


async def serve(api: Api, port: int, ended: asyncio.Event) -> None:
    """Answer on `port` of this machine until `ended` is set. UsageError where the port is taken."""
    server = Server(api.answer, Limits(idle_seconds=_IDLE_SECONDS, most_body_bytes=MOST_BODY_BYTES))
    instead = "stop what uses it or choose another"
    await server.listen(HOST, port, who="the v3io server", instead=instead)
    try:
        await ended.wait()
    finally:
        await server.stop(_STOP_SECONDS)

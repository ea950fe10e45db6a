"""The listening side: aiohttp's server, bare of routes."""

import asyncio
import logging
import os
from typing import Any

from aiohttp import web

from headrace.runtime.embedded.ports import HOST
from headrace.runtime.embedded.v3io.web.api import MOST_BODY_BYTES, Api
from headrace.runtime.errors import UsageError

_BACKLOG = 1024
_KEEP_ALIVE_SECONDS = 600.0
_STOP_SECONDS = 2.0

# aiohttp's own lines would have a traceback for every malformed request.
_silent = logging.getLogger("headrace.v3io.aiohttp")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


async def serve(api: Api, port: int, ended: asyncio.Event) -> None:
    """Answer on `port` of this machine until `ended` is set. UsageError where the port is taken."""
    make: Any = web.BaseRequest
    loop = asyncio.get_running_loop()
    server = web.Server(
        api.answer,
        request_factory=lambda *parts: make(*parts, loop, client_max_size=MOST_BODY_BYTES),
        access_log=None,
        logger=_silent,
        auto_decompress=False,  # no client of v3io compresses, and a bomb stays small
        keepalive_timeout=_KEEP_ALIVE_SECONDS,
    )
    try:
        listening = await loop.create_server(server, HOST, port, backlog=_BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(
            f"the v3io server cannot listen on {HOST}:{port}: {why}; stop what uses it or choose another"
        ) from error
    try:
        await ended.wait()
    finally:
        listening.close()
        await server.shutdown(_STOP_SECONDS)

"""What goes back to a client."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import aclosing

from aiohttp import web
from multidict import CIMultiDict

from headrace.runtime.wire.reply import Reply
from headrace.triggers.http.stream import AnswerStream, CutOffError

_UNSAYABLE = re.compile(r"[\0\r\n]")
_SERVER = {"Server": "headrace"}  # not which version of what
WRITE_SECONDS = 60.0
CLOSE = {"Connection": "close"}
# Between two neighbours on the wire, which here is us and the client: not a handler's to say.
_OURS = frozenset(
    {
        *("connection", "content-length", "keep-alive", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    }
)


def text(status: int, said: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer of our own, in a line."""
    return web.Response(status=status, text=f"{said}\n", headers={**_SERVER, **(headers or {})})


def headers_of(reply: Reply, told: Mapping[str, str]) -> CIMultiDict[str]:
    """Of what the handler, or who speaks for it, has answered, and what a browser is told beside that.

    Raises ValueError for a header that HTTP can't say.
    """
    headers = CIMultiDict({**_SERVER, **told})
    for name, value in reply.headers:
        if name.lower() not in _OURS:
            if not name.isascii():
                raise ValueError(f"a header is called {name!r:.100}, which HTTP can't say")
            headers.add(_checked(name), _checked((value or b"").decode("utf-8", "surrogateescape")))
    if reply.content_type:
        headers["Content-Type"] = _checked(reply.content_type)
    return headers


def _checked(said: str) -> str:
    if _UNSAYABLE.search(said):
        raise ValueError(f"a header has {said!r:.100}, which HTTP can't say")
    return said


async def send_parts(
    request: web.BaseRequest, response: web.StreamResponse, rest: AnswerStream
) -> web.StreamResponse:
    """As they come. A client that takes nothing for WRITE_SECONDS, or whose answer has no end, is cut off."""
    try:
        await response.prepare(request)
        async with aclosing(rest.parts()) as parts:
            async for part in parts:
                async with asyncio.timeout(WRITE_SECONDS):
                    await response.write(part)
        await response.write_eof()
    except (CutOffError, TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()  # else a client would take it for whole
    finally:
        rest.leave()
    return response

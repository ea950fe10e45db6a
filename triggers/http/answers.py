"""What goes back to a client."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import aclosing

from aiohttp import web
from multidict import CIMultiDict

from headrace.runtime.web.refusals import SERVER
from headrace.runtime.wire.reply import Reply
from headrace.triggers.http.settings import TOKEN
from headrace.triggers.http.stream import AnswerStream, CutOffError

# RFC 9110, 5.5. Text beyond ASCII goes out as UTF-8.
_UNSAYABLE = re.compile("[\0-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_SERVER = {"Server": SERVER}
WRITE_SECONDS = 60.0
_WITHOUT_BODY = (204, 205, 304)
# Between two neighbours on the wire, which here is us and the client: not a handler's to say.
_OURS = frozenset(
    {
        *("connection", "content-length", "keep-alive", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    }
)


def text_answer(status: int, said: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer of our own, in a line."""
    return web.Response(status=status, text=f"{said}\n", headers={**_SERVER, **(headers or {})})


def headers_of(reply: Reply, told: Mapping[str, str]) -> CIMultiDict[str]:
    """Of what the handler, or who speaks for it, has answered; what it doesn't say stands in `told`.

    Raises ValueError for a header that HTTP can't say.
    """
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in reply.headers:
        if not TOKEN.fullmatch(name):
            raise ValueError(f"a header is called {name!r:.100}, which HTTP can't say")
        if name.lower() not in _OURS:
            headers.add(name, _checked(name, (value or b"").decode(errors="surrogateescape")))
    if reply.content_type:
        headers["Content-Type"] = _checked("Content-Type", reply.content_type)
    for name, said in {**_SERVER, **told}.items():
        if name == "Vary":  # the answer goes by what both have looked at
            headers.add(name, said)
        else:
            headers.setdefault(name, said)
    return headers


def _checked(name: str, said: str) -> str:
    if _UNSAYABLE.search(said):
        raise ValueError(f"the header {name:.100} has {said!r:.100}, which HTTP can't say")
    return said


def is_empty(method: str, status: int) -> bool:
    """Whether the answer has no body, whatever the handler gives: else it'd be taken for the next answer."""
    return method == "HEAD" or status in _WITHOUT_BODY


async def send_parts(
    request: web.BaseRequest, response: web.StreamResponse, rest: AnswerStream
) -> web.StreamResponse:
    """As they come. A client that takes nothing for WRITE_SECONDS, or whose answer has no end, is cut off.

    An answer without a body is over at once, and so is the handler's generator.
    """
    try:
        await response.prepare(request)
        if not is_empty(request.method, response.status):
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

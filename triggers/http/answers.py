"""What goes back to a client."""

from collections.abc import Mapping

from aiohttp import web
from multidict import CIMultiDict

from headrace.runtime.wire.reply import Reply

_SERVER = {"Server": "headrace"}  # not which version of what
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


def response_of(reply: Reply, told: Mapping[str, str]) -> web.Response:
    """What the handler, or who speaks for it, has answered, and what a browser is told beside that.

    Raises ValueError for a header that HTTP can't say.
    """
    headers = CIMultiDict({**_SERVER, **told})
    for name, value in reply.headers:
        if name.lower() not in _OURS:
            headers.add(name, (value or b"").decode("utf-8", "surrogateescape"))
    if reply.content_type:
        headers["Content-Type"] = reply.content_type
    for name, said in headers.items():
        if not name.isascii() or set("\r\n\0") & {*name, *said}:
            raise ValueError(f"header {name!r} has {said!r:.100}, which HTTP can't say")
    return web.Response(status=reply.status, body=reply.body, headers=headers)

"""An HTTP server for a function that needs one of its own: aiohttp's, with bounds on what clients do to it.

    from headrace.web import Limits, Server, refuse_foreign_pages

    async def listen() -> None:
        app = aiohttp.web.Application(middlewares=[refuse_foreign_pages("127.0.0.1")])
        await Server(app, Limits()).listen("127.0.0.1", 8090, who="the front", instead="set FRONT_PORT")

Connections, heads, bodies that haven't come whole and frames of WebSockets are counted, for all clients
together, and bounded by `Limits`, in bytes and seconds. `whole_body`, `body_in_parts` and `frames` take what
has come; a handler that raises RefusedError answers with its status and line. `Server.listen` raises
ListenError, one line. `refuse_foreign_pages` does what an http trigger's crossOriginProtection does.
"""

from collections.abc import Iterable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from headrace.runtime.web.addresses import ListenError
from headrace.runtime.web.cross_origin import CrossOriginGuard, is_form_type
from headrace.runtime.web.limits import Limits
from headrace.runtime.web.payloads import body_in_parts, frames, whole_body
from headrace.runtime.web.refusals import RefusedError
from headrace.runtime.web.server import Server

__all__ = [
    "Limits",
    "ListenError",
    "RefusedError",
    "Server",
    "body_in_parts",
    "frames",
    "is_form_type",
    "refuse_foreign_pages",
    "whole_body",
]


def refuse_foreign_pages(host: str, names: Iterable[str] = ()) -> Middleware:
    """Return a middleware that answers with 403, in JSON, what a page of another site asks, WebSockets too.

    `host` is what the server listens at. Where that is this machine alone, `Host` has to be one of its own
    names or of `names`; elsewhere any, unless `names` are given. Goes before what looks at a request.
    """
    guard = CrossOriginGuard(host, names)

    @web.middleware
    async def refusing(request: web.Request, handler: Handler) -> web.StreamResponse:
        if refusal := guard.refusal(request.method, request.headers):
            return web.json_response({"error": refusal}, status=403)
        return await handler(request)

    return refusing

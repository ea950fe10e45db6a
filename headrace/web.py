"""For functions that have an HTTP server of their own, by aiohttp, beside their triggers.

    from headrace.web import refuse_foreign_pages

    app = web.Application(middlewares=[refuse_foreign_pages("127.0.0.1")])

What an http trigger's crossOriginProtection does, for such a server.
"""

from collections.abc import Iterable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from headrace.runtime.web.cross_origin import is_form_type
from headrace.runtime.web.guard import Guard

__all__ = ["is_form_type", "refuse_foreign_pages"]


def refuse_foreign_pages(host: str, names: Iterable[str] = ()) -> Middleware:
    """A middleware that answers with 403, in JSON, what a page of another site asks, WebSockets too.

    `host` is what the server listens at. Where that is this machine alone, `Host` has to be one of its own
    names or of `names`; elsewhere any, unless `names` are given. Goes before what looks at a request.
    """
    guard = Guard(host, names)

    @web.middleware
    async def refusing(request: web.Request, handler: Handler) -> web.StreamResponse:
        if refusal := guard.refusal(request.method, request.headers):
            return web.json_response({"error": refusal}, status=403)
        return await handler(request)

    return refusing

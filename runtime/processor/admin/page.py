"""The page at `/`: three files, which ask this server alone."""

from importlib.resources import files
from pathlib import PurePosixPath

from aiohttp import web
from aiohttp.typedefs import Handler

_FILES = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js"}
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_HEADERS = {
    # What handlers and topics are called is text, wherever it comes from.
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_routes() -> list[web.RouteDef]:
    """Reads the files once."""
    return [web.get(path, _answering(name)) for path, name in _FILES.items()]


def _answering(name: str) -> Handler:
    text = files("headrace.runtime.processor.admin").joinpath("files", name).read_text("utf-8")
    content_type = _TYPES[PurePosixPath(name).suffix]

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type=content_type, charset="utf-8", headers=_HEADERS)

    return answer

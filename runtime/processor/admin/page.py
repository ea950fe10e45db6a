"""The page at `/`: three files, which ask this server alone."""

from importlib.resources import files
from pathlib import PurePosixPath

from aiohttp import web
from aiohttp.typedefs import Handler

_PAGE_FILES = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js"}
_PAGE_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_PAGE_HEADERS = {
    # What handlers and topics are called is text, wherever it comes from.
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_routes() -> list[web.RouteDef]:
    """Reads the files once."""
    return [web.get(path, _answering(name)) for path, name in _PAGE_FILES.items()]


def _answering(name: str) -> Handler:
    text = files("headrace.runtime.processor.admin").joinpath("files", name).read_text("utf-8")
    content_type = _PAGE_TYPES[PurePosixPath(name).suffix]

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type=content_type, charset="utf-8", headers=_PAGE_HEADERS)

    return answer

"""The page, and the two files that it has."""

from importlib import resources
from typing import Any

from headrace.functions.run_tracking.backend.responses import HEADERS, HttpResponse
from headrace.functions.run_tracking.backend.state import BackendState

FILES = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js"}
_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript"}
_WEB = "headrace.functions.run_tracking.web"


def page(site: BackendState, event: Any) -> HttpResponse:
    """One of FILES."""
    name = FILES[event.path.rstrip("/") or "/"]
    data = resources.files(_WEB).joinpath("files", name).read_bytes()
    return HttpResponse(200, _TYPES[name.rpartition(".")[2]], data, {**HEADERS, "Cache-Control": "no-cache"})

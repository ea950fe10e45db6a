"""The page, and the two files that it has."""

from importlib import resources
from typing import Any

from headrace.functions.run_tracking.backend.responses import HEADERS, Answer
from headrace.functions.run_tracking.backend.state import Site

FILES = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js"}
_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript"}
_WEB = "headrace.functions.run_tracking.web"


def page(site: Site, event: Any) -> Answer:
    """One of FILES."""
    name = FILES[event.path.rstrip("/") or "/"]
    data = resources.files(_WEB).joinpath("files", name).read_bytes()
    return Answer(200, _TYPES[name.rpartition(".")[2]], data, {**HEADERS, "Cache-Control": "no-cache"})

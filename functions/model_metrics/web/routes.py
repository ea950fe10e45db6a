"""Routing of HTTP requests: the page's files and the metrics API."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import resources
from typing import Any, NamedTuple

from headrace.functions.model_metrics.web.metrics_reader import MetricsReader
from headrace.functions.model_metrics.web.query import QueryError, read_query

_METRICS = "/api/v1/metrics/pipeline/"
# A page that is looked at asks again after that; caches in between may keep an answer as long.
_MOST_SECONDS = 15
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # The page's script and style are files of their own, and it requests nothing from elsewhere.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
_FILES = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js"}
_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript"}


class HttpResponse(NamedTuple):
    """An HTTP response."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str]


def respond(reader: MetricsReader, method: str, path: str, fields: Mapping[str, Any]) -> HttpResponse:
    """Return the response to a request. Raises SQLAlchemy's errors if the database can't be reached."""
    # HEAD is answered like GET: the trigger's server leaves the body out.
    if method not in ("GET", "HEAD"):
        return _json(405, {"error": "it can only be read: GET"}, {"Allow": "GET, HEAD"})
    if path in _FILES:
        name = _FILES[path]
        data = resources.files(__package__).joinpath("files", name).read_bytes()
        return HttpResponse(200, _TYPES[name.rpartition(".")[2]], data, _HEADERS)
    readers: dict[str, Callable[[], Any]] = {
        "/api/v1/models": reader.models,
        "/api/v1/ignored": reader.ignored,
        f"{_METRICS}responses": lambda: reader.responses(read_query(fields, datetime.now(UTC))),
        f"{_METRICS}classification": lambda: reader.classification(read_query(fields, datetime.now(UTC))),
        f"{_METRICS}regression": lambda: reader.regression(read_query(fields, datetime.now(UTC))),
    }
    if path not in readers:
        return _json(404, {"error": f"nothing is here; there are / and {', '.join(sorted(readers))}"})
    try:
        return _json(200, readers[path]())
    except QueryError as error:
        return _json(400, {"error": str(error)})


def error_response(status: int, reason: str) -> HttpResponse:
    """Return a response with a JSON object that has one member, `error`."""
    return _json(status, {"error": reason})


def _json(status: int, document: Any, more: Mapping[str, str] | None = None) -> HttpResponse:
    # An error isn't kept: the database may be back at the next request.
    caching = {"Cache-Control": f"max-age={_MOST_SECONDS}" if status == 200 else "no-store"}
    return HttpResponse(
        status, "application/json", json.dumps(document).encode(), {**_HEADERS, **caching, **(more or {})}
    )

"""Which request gets which answer."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import resources
from typing import Any, NamedTuple

from headrace.functions.model_metrics.web.metrics_reader import MetricsReader
from headrace.functions.model_metrics.web.query import QueryError, read_query

_METRICS = "/api/v1/metrics/pipeline/"
_MOST_SECONDS = (
    15  # a page that is looked at asks again after that; what is between may keep an answer as long
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # The page has its script and its style in files of its own, and talks to nobody else.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
_FILES = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js"}
_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript"}


class HttpResponse(NamedTuple):
    """Of one request."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str]


def respond(answers: MetricsReader, method: str, path: str, fields: Mapping[str, Any]) -> HttpResponse:
    """Raises SQLAlchemy's errors where the database is away."""
    if method not in ("GET", "HEAD"):
        return _json(405, {"error": "it can only be read: GET"}, {"Allow": "GET, HEAD"})
    if path in _FILES:
        name = _FILES[path]
        data = resources.files(__package__).joinpath("files", name).read_bytes()
        return HttpResponse(200, _TYPES[name.rpartition(".")[2]], data, _HEADERS)
    asked: dict[str, Callable[[], Any]] = {
        "/api/v1/models": answers.models,
        "/api/v1/ignored": answers.ignored,
        f"{_METRICS}responses": lambda: answers.responses(read_query(fields, datetime.now(UTC))),
        f"{_METRICS}classification": lambda: answers.classification(read_query(fields, datetime.now(UTC))),
        f"{_METRICS}regression": lambda: answers.regression(read_query(fields, datetime.now(UTC))),
    }
    if path not in asked:
        return _json(404, {"error": f"nothing is here; there are / and {', '.join(sorted(asked))}"})
    try:
        return _json(200, asked[path]())
    except QueryError as error:
        return _json(400, {"error": str(error)})


def error_response(status: int, said: str) -> HttpResponse:
    """In one line."""
    return _json(status, {"error": said})


def _json(status: int, document: Any, more: Mapping[str, str] | None = None) -> HttpResponse:
    caching = {"Cache-Control": f"max-age={_MOST_SECONDS}" if status == 200 else "no-store"}
    return HttpResponse(
        status, "application/json", json.dumps(document).encode(), {**_HEADERS, **caching, **(more or {})}
    )

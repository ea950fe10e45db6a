"""Responses with files: the page with its script and style, and artifacts of runs."""

import re
from collections.abc import Iterator
from importlib import resources
from typing import Any
from urllib.parse import quote

from headrace.functions.run_tracking.backend.requests import storable
from headrace.functions.run_tracking.backend.responses import (
    HEADERS,
    HttpResponse,
    RequestError,
    check_run_id,
)
from headrace.functions.run_tracking.backend.state import BackendState
from headrace.functions.run_tracking.blobs.store import BlobError

FILES = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js"}
_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript"}
_WEB = "headrace.functions.run_tracking.web"
_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}")
_ANY_TYPE = "application/octet-stream"
# Types that a browser would run or show as a page. `nosniff` keeps it from guessing another type.
_ACTIVE = re.compile("script|html|xml|css", re.IGNORECASE)
_ALONE = {
    # `sandbox`: what a browser shows as a page all the same runs no script and has no origin.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_MOST_NAME = 200


def page(state: BackendState, event: Any) -> HttpResponse:
    """Serve one of FILES."""
    name = FILES[event.path.rstrip("/") or "/"]
    data = resources.files(_WEB).joinpath("files", name).read_bytes()
    return HttpResponse(200, _TYPES[name.rpartition(".")[2]], data, {**HEADERS, "Cache-Control": "no-cache"})


def artifact(state: BackendState, event: Any, run_id: str) -> HttpResponse:
    """Serve the artifact that the query's `path` names, in parts, as an attachment.

    The content type is the client's unless a browser would run it. Raises RequestError.
    """
    path = storable(event.fields.get("path", ""), "path")
    blob = state.reader.blob(check_run_id(run_id), path)
    parts = None if blob is None else _read(state, blob["blob_key"])
    if blob is None or parts is None:
        raise RequestError(404, "the run has no such artifact")
    # The client has chosen the type, so it isn't trusted: on this origin a script could use the API.
    claimed_type = blob["content_type"]
    content_type = (
        claimed_type if _TYPE.fullmatch(claimed_type) and not _ACTIVE.search(claimed_type) else _ANY_TYPE
    )
    more = {"Content-Disposition": _disposition(path), "Cache-Control": "no-store"}
    return HttpResponse(200, content_type, _in_parts(parts), {**HEADERS, **_ALONE, **more})


def _read(state: BackendState, key: str) -> Iterator[bytes] | None:
    try:
        return state.blobs.read(key)
    except BlobError as error:
        state.logger.warn_with("the blob store can't be read: a request gets 503", error=str(error))
        raise RequestError(503, "the blob store is away") from None


def _in_parts(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Wrap an iterator in a generator: the runtime streams generators, and no other iterators."""
    yield from parts


def _disposition(path: str) -> str:
    """Return Content-Disposition by RFC 6266: an ASCII name, and the whole name for newer clients."""
    # A leading dot would make it a hidden file on the client's machine.
    name = _CONTROL.sub("_", path.rpartition("/")[2])[:_MOST_NAME].lstrip(".") or "artifact"
    return f"attachment; filename=\"{_UNSAFE.sub('_', name)}\"; filename*=UTF-8''{quote(name, safe='')}"

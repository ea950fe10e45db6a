"""The page, and the two files that it has."""

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


def page(site: BackendState, event: Any) -> HttpResponse:
    """One of FILES."""
    name = FILES[event.path.rstrip("/") or "/"]
    data = resources.files(_WEB).joinpath("files", name).read_bytes()
    return HttpResponse(200, _TYPES[name.rpartition(".")[2]], data, {**HEADERS, "Cache-Control": "no-cache"})


_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}")


_ANY_TYPE = "application/octet-stream"


# What a browser would run, or read as a page. `nosniff` keeps it from taking bytes of no type for a script.
_ACTIVE = re.compile("script|html|xml|css", re.IGNORECASE)


_ALONE = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
}


_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


_MOST_NAME = 200


def artifact(site: BackendState, event: Any, run_id: str) -> HttpResponse:
    """Of the `path` that the query names, in parts."""
    path = storable(event.fields.get("path", ""), "path")
    blob = site.reader.blob(check_run_id(run_id), path)
    parts = None if blob is None else _read(site, blob["blob_key"])
    if blob is None or parts is None:
        raise RequestError(404, "the run has no such artifact")
    said = blob["content_type"]
    content_type = said if _TYPE.fullmatch(said) and not _ACTIVE.search(said) else _ANY_TYPE
    more = {"Content-Disposition": _disposition(path), "Cache-Control": "no-store"}
    return HttpResponse(200, content_type, _in_parts(parts), {**HEADERS, **_ALONE, **more})


def _read(site: BackendState, key: str) -> Iterator[bytes] | None:
    try:
        return site.blobs.read(key)
    except BlobError as error:
        site.logger.warn_with("the blob store can't be read: a request gets 503", error=str(error))
        raise RequestError(503, "the blob store is away") from None


def _in_parts(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The runtime sends generators in parts, and no other iterators."""
    yield from parts


def _disposition(path: str) -> str:
    """RFC 6266: a plain name for all, and the whole name for those that know how."""
    name = _CONTROL.sub("_", path.rpartition("/")[2])[:_MOST_NAME].lstrip(".") or "artifact"
    return f"attachment; filename=\"{_UNSAFE.sub('_', name)}\"; filename*=UTF-8''{quote(name, safe='')}"

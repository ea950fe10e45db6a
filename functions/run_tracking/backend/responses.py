"""HTTP responses, with headers that keep browsers from running or embedding them."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from headrace.functions.run_tracking.messages.items import RUN_ID

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # The page's script and style are files of their own, and it requests nothing from elsewhere.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
# An answer is in this worker's memory as a whole before any of it is sent.
_MOST_BYTES = 64 * 1024 * 1024
_SENT_AT_ONCE = 256 * 1024


class HttpResponse(NamedTuple):
    """An HTTP response. A body that is an iterator is sent in parts."""

    status: int
    content_type: str
    body: bytes | Iterator[bytes]
    headers: Mapping[str, str]


class RequestError(Exception):
    """A request is refused with `status`. The message is one line for the client."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers or {}


def json_response(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a document as JSON; NaN and infinities become null. Raises RequestError if it is too large."""
    body = _encoded(document)
    _check_size(len(body))
    headers = {**HEADERS, "Cache-Control": "no-store", **(headers or {})}
    return HttpResponse(status, "application/json", body, headers)


def json_list_response(documents: Iterable[Any]) -> HttpResponse:
    """Return a list as JSON, encoding one member at a time. Raises RequestError if it is too large."""
    parts, size = [], 0
    for document in documents:
        # Each part has its comma before it; the first one's is taken off below.
        parts.append(b"," + _encoded(document))
        size += len(parts[-1])
        _check_size(size)
    parts[:1] = [part[1:] for part in parts[:1]]
    whole = [b"[", *parts, b"]"]
    body = _each(whole) if size > _SENT_AT_ONCE else b"".join(whole)
    return HttpResponse(200, "application/json", body, {**HEADERS, "Cache-Control": "no-store"})


def error_response(error: RequestError) -> HttpResponse:
    """Return the response for a refused request: a JSON object with the member `error`."""
    return json_response({"error": str(error)}, error.status, error.headers)


def no_content() -> HttpResponse:
    """Return a response without a body (204)."""
    return HttpResponse(204, "application/json", b"", {**HEADERS, "Cache-Control": "no-store"})


def check_run_id(run_id: str) -> str:
    """Return `run_id` if it is a valid id. Raises RequestError."""
    if not RUN_ID.fullmatch(run_id):
        raise RequestError(400, f"{run_id[:200]!r} is no id of a run")
    return run_id


def _encoded(document: Any) -> bytes:
    # The document is copied only if it has a NaN or an infinity.
    try:
        return json.dumps(document, allow_nan=False).encode()
    except ValueError:
        return json.dumps(_finite(document), allow_nan=False).encode()


def _check_size(size: int) -> None:
    if size > _MOST_BYTES:
        raise RequestError(400, f"the answer would be more than {_MOST_BYTES} bytes: ask for less at once")


def _each(parts: list[bytes]) -> Iterator[bytes]:
    """Yield the parts and let each go as it is sent, so that memory shrinks meanwhile."""
    parts.reverse()
    while parts:
        yield parts.pop()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(member) for member in value]
    return value

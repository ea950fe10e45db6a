"""Requests to the v3io server: who may make them, which function or object they are for, and errors."""

import asyncio
import base64
import binascii
import hmac
import logging
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping

from aiohttp import web

from headrace.runtime.embedded.ports import HOST
from headrace.runtime.embedded.v3io.calls import FunctionCall, function_error, object_error
from headrace.runtime.embedded.v3io.errors import (
    ApiError,
    container_not_found,
    invalid_argument,
    too_large,
)
from headrace.runtime.embedded.v3io.items import Items
from headrace.runtime.embedded.v3io.listing import Listing
from headrace.runtime.embedded.v3io.nodes import Address, parse_address
from headrace.runtime.embedded.v3io.objects import Objects
from headrace.runtime.embedded.v3io.records import RecordReader, RecordWriter
from headrace.runtime.embedded.v3io.scans import Scans
from headrace.runtime.embedded.v3io.store import Store
from headrace.runtime.embedded.v3io.streams import Streams
from headrace.runtime.web.cross_origin import CrossOriginGuard
from headrace.runtime.web.limits import Limits
from headrace.runtime.web.payloads import whole_body
from headrace.runtime.web.refusals import TOO_LONG, RefusedError
from headrace.runtime.web.server import Server

_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)")


class AccessKey:
    """The key that clients have to show; an empty one lets everybody in."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def check(self, headers: Mapping[str, str]) -> None:
        """Check the key that a request shows. ApiError for another one, or none."""
        # Compared in the same time whatever differs: how long it takes must not tell how far a guess fits.
        if self._key and not any(hmac.compare_digest(self._key, shown) for shown in _shown_keys(headers)):
            raise ApiError(401, -13, "Permission denied: send the access key as X-v3io-session-key")


def _shown_keys(headers: Mapping[str, str]) -> Iterator[bytes]:
    """Yield all that may be the key: a header of its own, a password, an AWS credential."""
    yield headers.get("X-v3io-session-key", "").encode(errors="replace")
    authorization = headers.get("Authorization", "")
    if authorization[:6].lower() == "basic ":
        yield _password(authorization[6:])
    elif found := _CREDENTIAL.search(authorization):
        yield found[1].encode(errors="replace")


def _password(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


MAX_BODY_BYTES = 10 << 20
_IDLE_SECONDS = 600.0
_STOP_SECONDS = 2.0
_FUNCTION = "X-v3io-function"
_GUARD = CrossOriginGuard(HOST)
_log = logging.getLogger(__name__)
Function = Callable[[FunctionCall], Awaitable[web.Response]]


def functions_of(store: Store) -> dict[str, Function]:
    """Return the functions that `X-v3io-function` may name, in lower case."""
    streams, items = Streams(store), Items(store)
    writer, reader = RecordWriter(store), RecordReader(store)
    return {
        "createstream": streams.create,
        "updatestream": streams.update,
        "describestream": streams.describe,
        "putrecords": writer.put_records,
        "seek": reader.seek,
        "seekshard": reader.seek,
        "getrecords": reader.get_records,
        "getitem": items.get,
        "putitem": items.put,
        "updateitem": items.update,
        "getitems": Scans(store).get_items,
    }


class Api:
    """Answers requests. Errors are answers too, in the form that the request's kind has."""

    def __init__(self, store: Store, access_key: AccessKey) -> None:
        self._containers = store.containers
        self._access_key = access_key
        self._functions = functions_of(store)
        self._objects = Objects(store)
        self._listing = Listing(store)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        is_function = _FUNCTION in request.headers
        try:
            return await self._answered(request)
        except RefusedError:  # the connection's, which answers that itself
            raise
        except ApiError as refusal:
            error = refusal
        except sqlite3.Error as failure:
            _log.error("%s %s failed, and nothing of it is kept: %s", request.method, request.path, failure)
            error = ApiError(500, -5, f"Input/output error: {failure}")
        # A fault of the server ends one request, and is seen in the log.
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            error = ApiError(500, -5, "Input/output error: the server's log has more")
        return function_error(error) if is_function else object_error(error)

    async def _answered(self, request: web.BaseRequest) -> web.Response:
        # Any page in a browser on this machine can send requests to loopback: those of others are refused.
        if refusal := _GUARD.refusal(request.method, request.headers):
            raise ApiError(403, -13, f"Permission denied: {refusal}")
        # Before the body is read: whoever hasn't the key can't have any of it kept here.
        self._access_key.check(request.headers)
        # The raw path: a percent-encoded question mark is a part of a name, and begins no query.
        path, _, query = request.raw_path.partition("?")
        address, body = parse_address(path), await _body(request)
        if not address.name and request.method == "GET":
            return self._listing.containers()
        if address.container not in self._containers:
            raise container_not_found(address.container)
        if function := request.headers.get(_FUNCTION):
            return await self._called(function, FunctionCall(address, body))
        if request.method == "GET" and not address.folder:
            return self._listing.contents(address.container, query)
        return self._of_object(request, address, body)

    async def _called(self, function: str, call: FunctionCall) -> web.Response:
        called = self._functions.get(function.lower())
        if called is None:
            raise invalid_argument(f"there is no function {function[:40]!r} here")
        return await called(call)

    def _of_object(self, request: web.BaseRequest, address: Address, body: bytes) -> web.Response:
        asked_range = request.headers.get("Range", "")
        match request.method:
            case "HEAD":
                return self._objects.head(address)
            case "GET":
                return self._objects.get(address, asked_range)
            case "PUT" | "POST":
                return self._objects.put(address, body, asked_range)
            case "DELETE":
                return self._objects.delete(address)
        raise ApiError(405, -22, f"Method not allowed: {request.method[:40]}")


async def _body(request: web.BaseRequest) -> bytes:
    try:
        return await whole_body(request, MAX_BODY_BYTES)
    except RefusedError as error:
        if error.status == TOO_LONG:
            raise too_large(MAX_BODY_BYTES) from error
        raise
    except Exception as error:  # the connection's: nothing of it is ours
        raise invalid_argument("the body did not come whole") from error


async def serve(api: Api, port: int, ended: asyncio.Event) -> None:
    """Answer on `port` of this machine until `ended` is set. UsageError where the port is taken."""
    server = Server(api.answer, Limits(idle_seconds=_IDLE_SECONDS, most_body_bytes=MAX_BODY_BYTES))
    instead = "stop what uses it or choose another"
    await server.listen(HOST, port, who="the v3io server", instead=instead)
    try:
        await ended.wait()
    finally:
        await server.stop(_STOP_SECONDS)

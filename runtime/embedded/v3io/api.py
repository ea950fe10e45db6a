"""Who may ask: whoever has the access key, or everybody where there is none."""

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
from headrace.runtime.embedded.v3io.records import Consuming, Producing
from headrace.runtime.embedded.v3io.scans import Scans
from headrace.runtime.embedded.v3io.store import Store
from headrace.runtime.embedded.v3io.streams import Streams
from headrace.runtime.web.cross_origin import CrossOriginGuard
from headrace.runtime.web.payloads import whole_body
from headrace.runtime.web.refusals import TOO_LONG, RefusedError

VARIABLE = "V3IO_ACCESS_KEY"


"""Of the server's environment, with the key that clients have to show: everybody sees a command line."""


_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)")


class AccessKey:
    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def check(self, headers: Mapping[str, str]) -> None:
        """ApiError for who shows another key, or none."""
        if self._key and not any(hmac.compare_digest(self._key, shown) for shown in _shown_keys(headers)):
            raise ApiError(401, -13, "Permission denied: send the access key as X-v3io-session-key")


def _shown_keys(headers: Mapping[str, str]) -> Iterator[bytes]:
    """All that may be the key: a header of its own, a password, an AWS credential."""
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


MOST_BODY_BYTES = 10 << 20


_FUNCTION = "X-v3io-function"


_GUARD = CrossOriginGuard(HOST)


_log = logging.getLogger(__name__)


Function = Callable[[FunctionCall], Awaitable[web.Response]]


def functions_of(store: Store) -> dict[str, Function]:
    """What `X-v3io-function` may name, in lower case."""
    streams, items = Streams(store), Items(store)
    producing, consuming = Producing(store), Consuming(store)
    return {
        "createstream": streams.create,
        "updatestream": streams.update,
        "describestream": streams.describe,
        "putrecords": producing.put_records,
        "seek": consuming.seek,
        "seekshard": consuming.seek,
        "getrecords": consuming.get_records,
        "getitem": items.get,
        "putitem": items.put,
        "updateitem": items.update,
        "getitems": Scans(store).get_items,
    }


class Api:
    """Answers everything, also what fails."""

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
        except RefusedError:
            raise
        except ApiError as refusal:
            error = refusal
        except sqlite3.Error as failure:
            _log.error("%s %s failed, and nothing of it is kept: %s", request.method, request.path, failure)
            error = ApiError(500, -5, f"Input/output error: {failure}")
        except Exception:  # a mistake of ours ends one request, and is seen in the log
            _log.exception("%s %s failed", request.method, request.path)
            error = ApiError(500, -5, "Input/output error: the server's log has more")
        return function_error(error) if is_function else object_error(error)

    async def _answered(self, request: web.BaseRequest) -> web.Response:
        if refusal := _GUARD.refusal(request.method, request.headers):
            raise ApiError(403, -13, f"Permission denied: {refusal}")
        self._access_key.check(request.headers)
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
        return await whole_body(request, MOST_BODY_BYTES)
    except RefusedError as error:
        if error.status == TOO_LONG:
            raise too_large(MOST_BODY_BYTES) from error
        raise
    except Exception as error:  # the connection's: nothing of it is ours
        raise invalid_argument("the body did not come whole") from error

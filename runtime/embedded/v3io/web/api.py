"""The way of a request: who asks, for what, and the answer or the error."""

import logging
import sqlite3
from collections.abc import Awaitable, Callable

from aiohttp import web

from headrace.runtime.embedded.v3io.store.address import Address, parse
from headrace.runtime.embedded.v3io.store.errors import (
    V3ioError,
    container_not_found,
    invalid_argument,
    too_large,
)
from headrace.runtime.embedded.v3io.store.store import Store
from headrace.runtime.embedded.v3io.web.answers import function_error, object_error
from headrace.runtime.embedded.v3io.web.call import Call
from headrace.runtime.embedded.v3io.web.consuming import Consuming
from headrace.runtime.embedded.v3io.web.items import Items
from headrace.runtime.embedded.v3io.web.keys import AccessKey
from headrace.runtime.embedded.v3io.web.producing import Producing
from headrace.runtime.embedded.v3io.web.streams import Streams

MOST_BODY_BYTES = 10 << 20

_log = logging.getLogger(__name__)

Function = Callable[[Call], Awaitable[web.Response]]


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
    }


class Api:
    """Answers everything, also what fails."""

    def __init__(self, store: Store, access_key: AccessKey) -> None:
        self._store = store
        self._access_key = access_key
        self._functions = functions_of(store)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        function = request.headers.get("X-v3io-function", "")
        as_error = function_error if function else object_error
        try:
            self._access_key.check(request.headers)
            address = self._addressed(request)
            return await self._called(function, address, await request.read())
        except V3ioError as error:
            return as_error(error)
        except web.HTTPRequestEntityTooLarge:
            return as_error(too_large(MOST_BODY_BYTES))
        except sqlite3.Error as error:
            _log.error("%s %s failed, and nothing of it is kept: %s", request.method, request.path, error)
            return as_error(V3ioError(500, -5, f"Input/output error: {error}"))

    def _addressed(self, request: web.BaseRequest) -> Address:
        address = parse(request.raw_path.partition("?")[0])
        if address.container not in self._store.containers:
            raise container_not_found(address.container)
        return address

    async def _called(self, function: str, address: Address, body: bytes) -> web.Response:
        called = self._functions.get(function.lower())
        if called is None:
            raise invalid_argument(f"there is no function {function[:40]!r} here")
        return await called(Call(address, body))

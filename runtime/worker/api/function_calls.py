"""Calls of other functions over HTTP: their addresses, the requests, and the answers."""

import asyncio
import http.client
import json
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

from headrace.runtime.worker.api import sdk

T = TypeVar("T")

_TEXT, _JSON = "text/plain", "application/json"
_TARGET = "X-Nuclio-Target"
# Between two neighbours on the wire, and what a browser says of its page: those of the request that an event
# came with don't hold for ours.
_NOT_PASSED_ON = re.compile(
    r"connection|content-length|content-type|expect|host|keep-alive|origin|proxy-connection|sec-fetch-.*"
    r"|te|trailer|transfer-encoding|upgrade"
)
_AS_WRITTEN = "%/:?[]@!$&'()*+,;="


FunctionCaller: TypeAlias = Callable[[str, Any, float | None, str | None], sdk.Response]
"""Calls a function by name, with an event, and blocks.

The others are a timeout in seconds, and a host to ask instead of the function's own.
"""


@dataclass(frozen=True, slots=True)
class HttpFunctionCaller:
    """Calls functions over HTTP.

    `addresses` has `host:port` of each function that runs together with this one; port 0 is one to be taken.
    """

    addresses: Mapping[str, str]
    elsewhere: Callable[[str, str | None], str]
    """Returns the SDK's address of a function that isn't among them, and of a service."""

    def __call__(
        self, name: str, event: Any, timeout_seconds: float | None, service: str | None
    ) -> sdk.Response:
        """Return the answer. Raises ConnectionError, or TimeoutError after so long without a word."""
        known = self.addresses.get(name) if not service else None
        if known is not None and known.endswith(":0"):
            raise ConnectionError(
                f"function {name} takes whatever port is free (port: 0), so it can't be called by its name: "
                "give its http trigger a port"
            )
        address = known or self.elsewhere(name, service)
        try:
            return _ask(address, build_request(name, event), timeout_seconds)
        except TimeoutError:
            if timeout_seconds is not None:
                raise TimeoutError(f"{name} at {address} said nothing for {timeout_seconds:g} s") from None
            why = "it does not answer"
        except (OSError, UnicodeError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        here = "" if known or service else f"; it isn't one of {self._called()}"
        raise ConnectionError(f"function {name} can't be reached at {address} ({why}){here}")

    def _called(self) -> str:
        names = ", ".join(sorted(self.addresses)) or "none"
        return f"those that run together here and have an http trigger: {names}"


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request to another function."""

    method: str
    target: str
    headers: Mapping[str, str | bytes]
    body: bytes | None


def build_request(function_name: str, event: Any) -> OutgoingRequest:
    """Return the request that an event is sent as. The event stays as it is; what it lacks has a default.

    Raises TypeError for a body that JSON can't say, ValueError for a header that HTTP can't.
    """
    event_headers = getattr(event, "headers", None) or {}
    headers = {_text(name): _header(value) for name, value in event_headers.items() if value is not None}
    if wrong := [name for name in headers if not name.isascii()]:
        raise ValueError(f"the event has the header {wrong[0]!r}, which HTTP can't say: only ASCII names")
    lower = {name.lower(): value for name, value in headers.items()}
    passed = {name: value for name, value in headers.items() if not _NOT_PASSED_ON.fullmatch(name.lower())}
    body, content_type = _body(getattr(event, "body", None))
    declared = content_type or _text(getattr(event, "content_type", None)) or lower.get("content-type", _TEXT)
    path = _text(getattr(event, "path", None))
    return OutgoingRequest(
        _text(getattr(event, "method", None)) or ("GET" if body is None else "POST"),
        quote(f"/{path.removeprefix('/')}", safe=_AS_WRITTEN, errors="surrogateescape"),
        {
            **({} if _TARGET.lower() in lower else {_TARGET: function_name}),
            **passed,
            "Content-Type": declared,
        },
        body,
    )


def _body(body: Any) -> tuple[bytes | None, str]:
    """Return the bytes of a body, and their type where they are JSON that was made here."""
    if body is None or isinstance(body, bytes):
        return body, ""
    if isinstance(body, bytearray | memoryview):
        return bytes(body), ""
    if isinstance(body, str):
        return body.encode(errors="surrogateescape"), ""
    return json.dumps(body).encode(), _JSON


def _text(value: str | bytes | None) -> str:
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else value or ""


def _header(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogateescape")


def _ask(address: str, request: OutgoingRequest, timeout_seconds: float | None) -> sdk.Response:
    connection = http.client.HTTPConnection(address, timeout=timeout_seconds)
    try:
        connection.connect()
        connection.request(request.method, request.target, body=request.body, headers=request.headers)
        answer = connection.getresponse()
        body: Any = answer.read()
    finally:
        connection.close()
    headers = {name.lower(): value for name, value in answer.getheaders()}
    content_type = headers.get("content-type", _TEXT)
    if content_type == _JSON:
        with suppress(ValueError, RecursionError):  # then it isn't
            body = json.loads(body)
    return sdk.Response(headers=headers, body=body, content_type=content_type, status_code=answer.status)


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread of its own, and return or raise what it does.

    No pool: neither the process's end nor other calls wait for the thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not done.done():
            outcome()

    def run() -> None:
        outcome: Callable[[], None]
        try:
            result = work()
        except Exception as error:
            outcome = _setter(done.set_exception, error)
        else:
            outcome = _setter(done.set_result, result)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name="call_function", daemon=True).start()
    return await done


def _setter(set_it: Callable[[Any], None], value: object) -> Callable[[], None]:
    return lambda: set_it(value)

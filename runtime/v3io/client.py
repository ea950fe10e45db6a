"""A small client of the web API: one call, one request, one deadline."""

import asyncio
import json
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
from yarl import URL

from headrace.runtime.errors import BrokerError, one_line
from headrace.runtime.v3io.addresses import V3ioAccess


class V3ioError(BrokerError):
    """A call to a web API that came to nothing."""


class V3ioAwayError(V3ioError):
    """A web API that did not answer, or can't for now.

    The call may have been done all the same. Waiting helps.
    """


class V3ioRefusedError(V3ioError):
    """A call that was answered by an error, and not done. `status` is HTTP's, `reason` the error's text."""

    def __init__(self, message: str, status: int, reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    @property
    def is_absent(self) -> bool:
        """Whether there is no such stream, shard or item."""
        return self.status == 404

    @property
    def is_forbidden(self) -> bool:
        """Whether the credentials are unknown, or may not do that."""
        return self.status in {401, 403}


T = TypeVar("T")
CALL_SECONDS = 30.0
"""How long one request and its answer may take."""
FIRST_SECONDS = 5.0
"""How long the first answer may take; twice that at the next try. A wrong address is told so soon."""
_WRONG_ADDRESS_HINT = "; is that the address of a v3io web API?"
_AWAY = frozenset({429, 500, 502, 503, 504})
_DECODING_ERRORS = (ValueError, TypeError, KeyError, AttributeError, OverflowError)


class V3ioClient:
    """A client of one web API, for `async with`, or `open` and `close`.

    `connections` is how many calls may be under way at once, `call_seconds` the deadline of each.

    aiohttp sends a PUT once more where its connection was closed before an answer, and a POST never. The web
    API takes either for every function, so what must not be done twice is a POST.

    All calls raise V3ioAwayError where there is no answer in time, or none that makes sense, and
    V3ioRefusedError.
    """

    def __init__(
        self, access: V3ioAccess, *, connections: int = 8, call_seconds: float = CALL_SECONDS
    ) -> None:
        self.access = access
        self._connections = connections
        self._call_seconds = call_seconds
        self._timeout_seconds = min(FIRST_SECONDS, call_seconds)
        self._has_answered = False
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Open the session, in a running event loop. Connects to nothing yet."""
        self._session = aiohttp.ClientSession(
            self.access.url,
            headers=self.access.headers,
            connector=aiohttp.TCPConnector(limit=self._connections, ssl=True),
            # Each call has a deadline of its own, over the whole of it.
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Self:
        self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def read(
        self, function: str, path: str, body: Mapping[str, Any] | None, decode: Callable[[Any], T]
    ) -> T:
        """Call a function that changes nothing, or nothing more the second time; `decode` its JSON."""
        return await self._call("PUT", path, function, body, decode)

    async def write(self, function: str, path: str, body: Mapping[str, Any], decode: Callable[[Any], T]) -> T:
        """Call a function by a request that is sent once. V3ioAwayError: it may have been done."""
        return await self._call("POST", path, function, body, decode)

    async def request(self, method: str, path: str, **query: str) -> bytes:
        """Send an HTTP request on an object or a container; return the body of the answer."""
        return await self._sent(method, path, {}, None, query)

    async def _call(
        self,
        method: str,
        path: str,
        function: str,
        body: Mapping[str, Any] | None,
        decode: Callable[[Any], T],
    ) -> T:
        headers = {"X-v3io-function": function}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        answer = await self._sent(method, path, headers, data, {})
        try:
            return decode(json.loads(answer) if answer.strip() else None)
        # Whatever answers at a mistyped address may send any JSON: no shape of it is a fault of ours.
        except _DECODING_ERRORS:
            what, text = self._named(function, path), one_line(answer[:200].decode(errors="replace"))
            raise V3ioAwayError(
                f"{what} was answered by what makes no sense: {text}{_WRONG_ADDRESS_HINT}"
            ) from None

    async def _sent(
        self, method: str, path: str, headers: Mapping[str, str], data: bytes | None, query: Mapping[str, str]
    ) -> bytes:
        assert self._session is not None, "open it first"
        what, url = self._named(headers.get("X-v3io-function", method), path), URL(path, encoded=True)
        try:
            async with (
                asyncio.timeout(seconds := self._timeout_seconds),
                self._session.request(
                    method, url, headers=headers, data=data, params=query, allow_redirects=False
                ) as response,
            ):
                answer = await response.read()
        except TimeoutError:
            # A slow web API must not be taken for an absent one for ever.
            self._timeout_seconds = min(2 * seconds, self._call_seconds)
            raise V3ioAwayError(f"{what}: no answer within {seconds:g} s{self._hint}") from None
        except (
            aiohttp.ServerDisconnectedError,
            aiohttp.ClientResponseError,
            aiohttp.ClientSSLError,
        ) as error:
            raise V3ioAwayError(f"{what}: {one_line(str(error))}{self._hint}") from None
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            raise V3ioAwayError(f"{what}: {one_line(str(error) or type(error).__name__)}") from None
        self._timeout_seconds, self._has_answered = self._call_seconds, True
        # Redirects aren't followed: the credentials would go to wherever they lead.
        if response.status >= 300:
            raise _refusal(what, response.status, answer)
        return answer

    @property
    def _hint(self) -> str:
        """The end of errors until there has been an answer: the address may be another service's."""
        return "" if self._has_answered else _WRONG_ADDRESS_HINT

    def _named(self, function: str, path: str) -> str:
        return f"{self.access}: {function} {path}"


def nothing(_: object) -> None:
    """Decode the answer to a call that has no content."""


def _refusal(what: str, status: int, answer: bytes) -> V3ioAwayError | V3ioRefusedError:
    reason = one_line(_reason(answer))
    # A gateway or an overloaded server: another try may succeed, and the call may have been done.
    message = f"{what}: {status} {reason}".rstrip()
    return V3ioAwayError(message) if status in _AWAY else V3ioRefusedError(message, status, reason)


def _reason(answer: bytes) -> str:
    """Return ErrorMessage of a function's answer, else the text: errors about objects have another form."""
    text = answer[:1000].decode(errors="replace").strip()
    try:
        fields = json.loads(answer)
    except ValueError:
        return text
    return str(fields.get("ErrorMessage", text)) if isinstance(fields, dict) else text

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
    """It did not answer, or can't for now: the call may have been done all the same. Waiting helps."""


class V3ioRefusedError(V3ioError):
    """It answered, and nothing was done. `status` is HTTP's, `reason` what it said."""

    def __init__(self, said: str, status: int, reason: str) -> None:
        super().__init__(said)
        self.status = status
        self.reason = reason

    @property
    def is_absent(self) -> bool:
        """There is no such stream, shard or item."""
        return self.status == 404

    @property
    def is_forbidden(self) -> bool:
        """Who asks may not do that, or isn't known."""
        return self.status in {401, 403}


T = TypeVar("T")


CALL_SECONDS = 30.0


"""For one request and its answer."""


FIRST_SECONDS = 5.0


"""For the first answer that there ever is, then twice that: so soon an address that is another's is said."""


_DOUBT = "; is that the address of a v3io web API?"


_AWAY = frozenset({429, 500, 502, 503, 504})


_MISUNDERSTOOD = (ValueError, TypeError, KeyError, AttributeError, OverflowError)


class V3ioClient:
    """`async with`, or `open` and `close`. `connections`: how many calls may be under way at once.

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
        self._patience_seconds = min(FIRST_SECONDS, call_seconds)
        self._has_answered = False
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """In an event loop. Connects to nothing yet."""
        self._session = aiohttp.ClientSession(
            self.access.url,
            headers=self.access.headers,
            connector=aiohttp.TCPConnector(limit=self._connections, ssl=True),
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def close(self) -> None:
        """Idempotent."""
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
        self, function: str, path: str, body: Mapping[str, Any] | None, understood: Callable[[Any], T]
    ) -> T:
        """A call that changes nothing, or nothing more the second time: what is `understood` of its JSON."""
        return await self._call("PUT", path, function, body, understood)

    async def write(
        self, function: str, path: str, body: Mapping[str, Any], understood: Callable[[Any], T]
    ) -> T:
        """A call that is sent once. V3ioAwayError: it may have been done."""
        return await self._call("POST", path, function, body, understood)

    async def request(self, method: str, path: str, **query: str) -> bytes:
        """On an object or a container."""
        return await self._sent(method, path, {}, None, query)

    async def _call(
        self,
        method: str,
        path: str,
        function: str,
        body: Mapping[str, Any] | None,
        understood: Callable[[Any], T],
    ) -> T:
        headers = {"X-v3io-function": function}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        answer = await self._sent(method, path, headers, data, {})
        try:
            return understood(json.loads(answer) if answer.strip() else None)
        except _MISUNDERSTOOD:  # whatever it is that answers there
            what, said = self._named(function, path), one_line(answer[:200].decode(errors="replace"))
            raise V3ioAwayError(f"{what} was answered by what makes no sense: {said}{_DOUBT}") from None

    async def _sent(
        self, method: str, path: str, headers: Mapping[str, str], data: bytes | None, query: Mapping[str, str]
    ) -> bytes:
        assert self._session is not None, "open it first"
        what, url = self._named(headers.get("X-v3io-function", method), path), URL(path, encoded=True)
        try:
            async with (
                asyncio.timeout(seconds := self._patience_seconds),
                self._session.request(
                    method, url, headers=headers, data=data, params=query, allow_redirects=False
                ) as response,
            ):
                answer = await response.read()
        except TimeoutError:
            self._patience_seconds = min(2 * seconds, self._call_seconds)
            raise V3ioAwayError(f"{what}: no answer within {seconds:g} s{self._doubt}") from None
        except (
            aiohttp.ServerDisconnectedError,
            aiohttp.ClientResponseError,
            aiohttp.ClientSSLError,
        ) as error:
            raise V3ioAwayError(f"{what}: {one_line(str(error))}{self._doubt}") from None
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            raise V3ioAwayError(f"{what}: {one_line(str(error) or type(error).__name__)}") from None
        self._patience_seconds, self._has_answered = self._call_seconds, True
        if response.status >= 300:
            raise _refusal(what, response.status, answer)
        return answer

    @property
    def _doubt(self) -> str:
        """Until there is an answer."""
        return "" if self._has_answered else _DOUBT

    def _named(self, function: str, path: str) -> str:
        return f"{self.access}: {function} {path}"


def nothing(_: object) -> None:
    """What is understood of the answer to a call that has none."""


def _refusal(what: str, status: int, answer: bytes) -> V3ioAwayError | V3ioRefusedError:
    reason = one_line(_reason(answer))
    said = f"{what}: {status} {reason}".rstrip()
    return V3ioAwayError(said) if status in _AWAY else V3ioRefusedError(said, status, reason)


def _reason(answer: bytes) -> str:
    """ErrorMessage of function calls; objects have another form."""
    text = answer[:1000].decode(errors="replace").strip()
    try:
        said = json.loads(answer)
    except ValueError:
        return text
    return str(said.get("ErrorMessage", text)) if isinstance(said, dict) else text

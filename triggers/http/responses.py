"""The rest of an answer that comes in parts, between its worker and its client."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from aiohttp import web
from multidict import CIMultiDict

from headrace.runtime.web.refusals import SERVER
from headrace.runtime.wire.reply import MAX_PART_BYTES, NOBODY, REPLY_WINDOW_BYTES, Reply
from headrace.triggers.http.settings import TOKEN

_TOLD_BYTES = REPLY_WINDOW_BYTES // 4


class CutOffError(Exception):
    """The handler failed amid its answer, or its worker died: the client must not take it for whole."""


class AnswerStream:
    """Holds what the client hasn't taken yet, about REPLY_WINDOW_BYTES at most: then its worker waits."""

    def __init__(self, on_taken: Callable[["AnswerStream", int], None]) -> None:
        """`on_taken` passes on how many bytes were taken in all, or NOBODY."""
        self._on_taken = on_taken
        self._waiting: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._received = self._taken = self._told = 0
        self._is_whole = self._is_over = False
        self.has_left = False
        """The client, before the end."""

    def put(self, data: bytes, *, is_last: bool) -> None:
        """The next part."""
        self._received += len(data)
        if self._received - self._told > REPLY_WINDOW_BYTES + MAX_PART_BYTES:
            self.end()  # its worker doesn't wait, as it should: what it sends isn't kept
        if not self._is_over:
            self._waiting.append(data)
            self._is_whole = self._is_over = is_last
            self._news.set()

    def end(self) -> None:
        """Nothing more comes. Idempotent."""
        self._is_over = True
        self._news.set()

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Each once the one before it is taken. Raises CutOffError where the end is missing."""
        while True:
            while self._waiting:
                data = self._waiting.popleft()
                yield data
                self._take(len(data))
            if self._is_over:
                break
            self._news.clear()
            await self._news.wait()
        if not self._is_whole:
            raise CutOffError

    def leave(self) -> None:
        """The client takes no more. Idempotent, and nothing where it has taken all."""
        if not self._is_over:
            self.has_left = True
            self.end()
            self._on_taken(self, NOBODY)

    def _take(self, byte_count: int) -> None:
        self._taken += byte_count
        if self._taken - self._told >= _TOLD_BYTES and not self._is_over:
            self._told = self._taken
            self._on_taken(self, self._told)


# RFC 9110, 5.5. Text beyond ASCII goes out as UTF-8.
_UNSAYABLE = re.compile("[\0-\x08\x0a-\x1f\x7f\ud800-\udfff]")


_SERVER = {"Server": SERVER}


WRITE_SECONDS = 60.0


_WITHOUT_BODY = (204, 205, 304)


# Between two neighbours on the wire, which here is us and the client: not a handler's to say.
_OURS = frozenset(
    {
        *("connection", "content-length", "keep-alive", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    }
)


def text_answer(status: int, said: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer of our own, in a line."""
    return web.Response(status=status, text=f"{said}\n", headers={**_SERVER, **(headers or {})})


def headers_of(reply: Reply, told: Mapping[str, str]) -> CIMultiDict[str]:
    """Of what the handler, or who speaks for it, has answered; what it doesn't say stands in `told`.

    Raises ValueError for a header that HTTP can't say.
    """
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in reply.headers:
        if not TOKEN.fullmatch(name):
            raise ValueError(f"a header is called {name!r:.100}, which HTTP can't say")
        if name.lower() not in _OURS:
            headers.add(name, _checked(name, (value or b"").decode(errors="surrogateescape")))
    if reply.content_type:
        headers["Content-Type"] = _checked("Content-Type", reply.content_type)
    for name, said in {**_SERVER, **told}.items():
        if name == "Vary":  # the answer goes by what both have looked at
            headers.add(name, said)
        else:
            headers.setdefault(name, said)
    return headers


def _checked(name: str, said: str) -> str:
    if _UNSAYABLE.search(said):
        raise ValueError(f"the header {name:.100} has {said!r:.100}, which HTTP can't say")
    return said


def is_empty(method: str, status: int) -> bool:
    """Whether the answer has no body, whatever the handler gives: else it'd be taken for the next answer."""
    return method == "HEAD" or status in _WITHOUT_BODY


async def send_parts(
    request: web.BaseRequest, response: web.StreamResponse, rest: AnswerStream
) -> web.StreamResponse:
    """As they come. A client that takes nothing for WRITE_SECONDS, or whose answer has no end, is cut off.

    An answer without a body is over at once, and so is the handler's generator.
    """
    try:
        await response.prepare(request)
        if not is_empty(request.method, response.status):
            async with aclosing(rest.parts()) as parts:
                async for part in parts:
                    async with asyncio.timeout(WRITE_SECONDS):
                        await response.write(part)
        await response.write_eof()
    except (CutOffError, TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()  # else a client would take it for whole
    finally:
        rest.leave()
    return response

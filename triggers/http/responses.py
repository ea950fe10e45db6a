"""Answers to clients: their headers, and bodies that come from a worker in parts."""

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

_REPORT_BYTES = REPLY_WINDOW_BYTES // 4


class CutOffError(Exception):
    """An answer without its end: the handler failed amid it, or its worker died."""


class AnswerStream:
    """The rest of an answer that comes in parts, between its worker and its client.

    Holds what the client hasn't taken yet, about REPLY_WINDOW_BYTES at most: then the worker waits.
    """

    def __init__(self, on_taken: Callable[["AnswerStream", int], None]) -> None:
        """`on_taken` is called with how many bytes the client has taken in all, or NOBODY."""
        self._on_taken = on_taken
        self._waiting: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._received = self._taken = self._reported = 0
        self._is_whole = self._is_over = False
        self.is_abandoned = False
        """Whether the client has gone before the end."""

    def put(self, data: bytes, *, is_last: bool) -> None:
        """Add the next part."""
        self._received += len(data)
        if self._received - self._reported > REPLY_WINDOW_BYTES + MAX_PART_BYTES:
            # The worker doesn't wait, as it should: what it sends isn't kept, or it would fill the memory.
            self.end()
        if not self._is_over:
            self._waiting.append(data)
            self._is_whole = self._is_over = is_last
            self._changed.set()

    def end(self) -> None:
        """End the stream: nothing more comes from the worker. Idempotent."""
        self._is_over = True
        self._changed.set()

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield the parts, each once the one before is taken. Raises CutOffError where the end is missing."""
        while True:
            while self._waiting:
                data = self._waiting.popleft()
                yield data
                self._take(len(data))
            if self._is_over:
                break
            self._changed.clear()
            await self._changed.wait()
        if not self._is_whole:
            raise CutOffError

    def abandon(self) -> None:
        """Tell the worker that the client takes no more. Idempotent; does nothing where all was taken."""
        if not self._is_over:
            self.is_abandoned = True
            self.end()
            self._on_taken(self, NOBODY)

    def _take(self, byte_count: int) -> None:
        self._taken += byte_count
        if self._taken - self._reported >= _REPORT_BYTES and not self._is_over:
            self._reported = self._taken
            self._on_taken(self, self._reported)


# RFC 9110, 5.5. Text beyond ASCII goes out as UTF-8.
_INVALID_IN_HEADER = re.compile("[\0-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_SERVER = {"Server": SERVER}
WRITE_SECONDS = 60.0
_WITHOUT_BODY = (204, 205, 304)
# Headers of the connection between this server and its client: those of a handler are dropped.
_HOP_BY_HOP = frozenset(
    {
        *("connection", "content-length", "keep-alive", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    }
)


def text_answer(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return an answer in a line of text that no handler gave."""
    return web.Response(status=status, text=f"{text}\n", headers={**_SERVER, **(headers or {})})


def headers_of(reply: Reply, defaults: Mapping[str, str]) -> CIMultiDict[str]:
    """Return the headers of an answer: the reply's, and of `defaults` those that the reply hasn't.

    Raises ValueError for a header that HTTP can't say.
    """
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in reply.headers:
        if not TOKEN.fullmatch(name):
            raise ValueError(f"a header is called {name!r:.100}, which HTTP can't say")
        if name.lower() not in _HOP_BY_HOP:
            headers.add(name, _checked(name, (value or b"").decode(errors="surrogateescape")))
    if reply.content_type:
        headers["Content-Type"] = _checked("Content-Type", reply.content_type)
    for name, text in {**_SERVER, **defaults}.items():
        if name == "Vary":  # the answer depends on what the handler and CORS have looked at
            headers.add(name, text)
        else:
            headers.setdefault(name, text)
    return headers


def _checked(name: str, text: str) -> str:
    if _INVALID_IN_HEADER.search(text):
        raise ValueError(f"the header {name:.100} has {text!r:.100}, which HTTP can't say")
    return text


def is_empty(method: str, status: int) -> bool:
    """Whether the answer has no body, whatever the handler gives: else it'd be taken for the next answer."""
    return method == "HEAD" or status in _WITHOUT_BODY


async def send_parts(
    request: web.BaseRequest, response: web.StreamResponse, rest: AnswerStream
) -> web.StreamResponse:
    """Send the rest of an answer as it comes; return the response.

    A client that takes nothing for WRITE_SECONDS, or whose answer has no end, is cut off. An answer without a
    body is over at once, and so is the handler's generator.
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
            request.transport.abort()  # closed in order, a client would take the answer for whole
    finally:
        rest.abandon()
    return response

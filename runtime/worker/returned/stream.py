"""An answer in parts: what a generator yields leaves as it comes, no faster than somebody takes it."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing
from typing import Any

from headrace.runtime.wire.reply import (
    MAX_PART_BYTES,
    NOBODY,
    REPLY_WINDOW_BYTES,
    Reply,
    encode_part,
    encode_reply,
)
from headrace.runtime.worker.api.sdk import Response
from headrace.runtime.worker.results import (
    HandlerReturnedError,
    body_of,
    finish,
    is_async_stream,
    is_stream,
    plain,
)
from headrace.runtime.worker.returned.replies import answer, reply_of

_GONE = "nobody takes the rest of its answer any more"


class ReplySender:
    """Sends the answers to one record after another, whole or in parts.

    The link thread tells how much of the parts was taken.
    """

    def __init__(self, send: Callable[[bytes], None], loop: asyncio.AbstractEventLoop) -> None:
        """The loop is its handlers'."""
        self.are_wanted = False
        """Somebody waits for what the handler returns now."""
        self._say = send
        self._held = b""
        self._loop = loop
        self._news = threading.Condition()
        self._woken = asyncio.Event()
        self._seq = -1
        self._sent = self._taken = 0
        self._head: Response | None = None
        self._sent_in_parts: object = object()  # the last one, without its body

    def on_taken(self, seq: int, byte_count: int) -> None:
        """As TAKEN says (link thread)."""
        with self._news:
            if seq != self._seq:
                return
            self._taken = byte_count
            self._news.notify_all()
        self._loop.call_soon_threadsafe(self._woken.set)

    async def finish(self, seq: int, result: Any) -> Any:
        """Do the rest of the handler's work; an answer that comes in parts is sent as it comes."""
        if inspect.isawaitable(result):
            result = await result
        if self.are_wanted and is_async_stream(result):
            return await self._send_async(seq, result)
        return await finish(result)

    def answer(self, seq: int, result: Any, *, is_last: bool) -> Any:
        """Send it, if that hasn't been done; the result that is left to be looked at.

        `is_last`: its outcome goes out next, and takes it along; see `take_held`.

        Raises as replies.reply_of, and HandlerReturnedError where nobody takes its parts any more.
        """
        if is_stream(result):
            return self._send(seq, result)
        if result is not self._sent_in_parts:
            self._held = answer(seq, result)
            if not is_last:
                self._say(self.take_held())
        return result

    def take_held(self) -> bytes:
        """What has to go out with the next frame, before it."""
        held, self._held = self._held, b""
        return held

    def _send(self, seq: int, result: Any) -> Response:
        with closing(body_of(result)) as items:
            self._begin(seq, result)
            for item in items:
                for data in self._parts(item):
                    with self._news:
                        self._news.wait_for(self._has_room)
                    self._put(data)
        return self._end()

    async def _send_async(self, seq: int, result: Any) -> Response:
        items: AsyncIterator[Any]
        async with aclosing(body_of(result)) as items:
            self._begin(seq, result)
            async for item in items:
                for data in self._parts(item):
                    while not self._has_room():
                        self._woken.clear()
                        if not self._has_room():  # it may have come just before
                            await self._woken.wait()
                    self._put(data)
        return self._end()

    def _begin(self, seq: int, result: Any) -> None:
        with self._news:
            self._seq, self._sent, self._taken = seq, 0, 0
        self._head = None
        if isinstance(result, Response):
            self._open(result)

    def _open(self, first: Any) -> None:
        """The head: of a response that has the generator, or of the first thing that it yields."""
        response = first if isinstance(first, Response) else Response()
        self._head = Response(response.headers, None, response.content_type, response.status_code)
        self._say(encode_reply(self._seq, head_of(self._head)))

    def _parts(self, item: Any) -> Iterator[bytes]:
        if self._head is None:
            self._open(item)
        data = plain(body_of(item))
        for at in range(0, len(data), MAX_PART_BYTES):
            yield data[at : at + MAX_PART_BYTES]

    def _has_room(self) -> bool:
        return self._taken == NOBODY or self._sent - self._taken < REPLY_WINDOW_BYTES

    def _put(self, data: bytes) -> None:
        if self._taken == NOBODY:
            raise HandlerReturnedError(_GONE)
        self._sent += len(data)
        self._say(encode_part(self._seq, data, is_last=False))

    def _end(self) -> Response:
        if self._head is None:  # it has yielded nothing
            self._open(None)
        assert self._head is not None
        self._say(encode_part(self._seq, b"", is_last=True))
        self._seq, self._sent_in_parts = -1, self._head
        return self._head


def head_of(response: Response) -> Reply:
    """What goes before the parts."""
    whole = reply_of(response)
    return Reply(whole.status, whole.content_type, whole.headers, b"", has_more=True)

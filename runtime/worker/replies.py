"""Answers: a handler's result as the response that somebody waits for, whole or in parts."""

import asyncio
import inspect
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from typing import Any

import nuclio_sdk

from headrace.runtime.wire.records import Headers
from headrace.runtime.wire.reply import (
    MAX_PART_BYTES,
    NOBODY,
    REPLY_WINDOW_BYTES,
    Reply,
    encode_part,
    encode_reply,
)
from headrace.runtime.worker.api.sdk import Response
from headrace.runtime.worker.api.user_traceback import describe_failure
from headrace.runtime.worker.results import (
    NO_RESPONSE,
    HandlerReturnedError,
    RecordOutcome,
    body_bytes,
    body_of,
    finish,
    is_async_stream,
    is_stream,
)

_TEXT, _JSON = "text/plain", "application/json"
_STATUSES = range(200, 600)  # what is below goes before an answer, and isn't one


def reply_of(result: Any) -> Reply:
    """Return the response that a result stands for, by nuclio_sdk's forms.

    Those are text, bytes, JSON of a dict or list, `(status, body)`, or a Response; None is empty. Any other
    body is its `str`, or JSON behind a status. Raises HandlerReturnedError for a status that no answer has in
    HTTP, and for headers that are no mapping, TypeError for what JSON can't say.
    """
    if isinstance(result, nuclio_sdk.Response):
        content_type = _name(result.content_type)
        return _reply(result.status_code, result.body, content_type, _headers(result.headers))
    if isinstance(result, tuple) and len(result) == 2:
        status, body = result
        is_plain = body is None or isinstance(body, str | bytes | bytearray)
        return _reply(status, body if is_plain else json.dumps(body), _TEXT if is_plain else _JSON)
    return _reply(200, result, _TEXT)


def reply_frame(seq: int, result: Any) -> bytes:
    """Return the REPLY frame that answers record `seq`. Raises as `reply_of`."""
    return encode_reply(seq, reply_of(result))


def batch_replies(
    seqs: Sequence[int], outcomes: Sequence[RecordOutcome]
) -> tuple[list[bytes], list[RecordOutcome]]:
    """Return REPLY frames for those records of a batch that have a response, and all outcomes.

    A record whose response can't be sent has failed.
    """
    frames, answered = [], list(outcomes)
    for i, (seq, outcome) in enumerate(zip(seqs, outcomes, strict=True)):
        if outcome.response is not NO_RESPONSE:
            try:
                frames.append(reply_frame(seq, outcome.response))
            except Exception as error:
                answered[i] = RecordOutcome(describe_failure(error))
    return frames, answered


def _reply(status: Any, body: Any, content_type: str, headers: Headers = ()) -> Reply:
    if not isinstance(status, int) or status not in _STATUSES:
        raise HandlerReturnedError(f"the handler's response has {status!r} for a status")
    if isinstance(body, dict | list):
        return Reply(int(status), _JSON, headers, json.dumps(body).encode())
    return Reply(int(status), content_type, headers, body_bytes(body))


def _headers(headers: Any) -> Headers:
    """Return the headers of a response. A list of values is a header for each."""
    if not headers:
        return ()
    if not isinstance(headers, Mapping):
        text = f"the handler's response has {headers!r:.200} for headers: expected a dict"
        raise HandlerReturnedError(text)
    return tuple(
        (_name(name), body_bytes(value)) for name, values in headers.items() for value in _values(values)
    )


def _name(name: Any) -> str:
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else str(name)


def _values(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)


_GONE = "nobody takes the rest of its answer any more"


class ReplySender:
    """Sends the answers to one record after another, whole or in parts.

    Parts go out no faster than somebody takes them: the link thread tells how much was taken.
    """

    def __init__(
        self, send: Callable[[bytes], None], loop: asyncio.AbstractEventLoop, *, are_wanted: bool = False
    ) -> None:
        """`send` writes frames, `loop` is the one that handlers run on.

        `are_wanted` says whether somebody waits for answers; record calls set it anew for each run.
        """
        self.are_wanted = are_wanted
        """Whether somebody waits for what the handler returns now."""
        self._send = send
        self._unsent = b""
        self._loop = loop
        self._progress = threading.Condition()
        self._woken = asyncio.Event()
        self._seq = -1
        self._sent = self._taken = 0
        self._head: Response | None = None
        self._sent_in_parts: object = object()  # the last one, without its body

    def on_taken(self, seq: int, byte_count: int) -> None:
        """Note how many bytes of the parts of the answer to `seq` were taken (link thread)."""
        with self._progress:
            if seq != self._seq:
                return
            self._taken = byte_count
            self._progress.notify_all()
        self._loop.call_soon_threadsafe(self._woken.set)

    async def finish(self, seq: int, result: Any) -> Any:
        """Do the rest of the handler's work; an answer that comes in parts is sent as it comes."""
        if inspect.isawaitable(result):
            result = await result
        if self.are_wanted and is_async_stream(result):
            return await self._send_parts_async(seq, result)
        return await finish(result)

    def answer(self, seq: int, result: Any, *, is_last: bool) -> Any:
        """Send the answer to record `seq`, unless it went out in parts; return what is left to judge.

        With `is_last` its frame waits for `take_unsent`: the record's outcome goes out next, and takes it
        along. Raises as `reply_of`, and HandlerReturnedError where nobody takes its parts any more.
        """
        if is_stream(result):
            return self._send_parts(seq, result)
        if result is not self._sent_in_parts:
            self._unsent = reply_frame(seq, result)
            if not is_last:
                self._send(self.take_unsent())
        return result

    def take_unsent(self) -> bytes:
        """Return what has to go out with the next frame, before it."""
        unsent, self._unsent = self._unsent, b""
        return unsent

    def _send_parts(self, seq: int, result: Any) -> Response:
        # Closed also where nobody takes the rest: its `finally` blocks run now, not at some collection.
        with closing(body_of(result)) as items:
            self._begin(seq, result)
            for item in items:
                for data in self._parts(item):
                    # The generator waits here, with its handler, while too much is ahead of what the client
                    # has taken.
                    with self._progress:
                        self._progress.wait_for(self._has_room)
                    self._put(data)
        return self._end()

    async def _send_parts_async(self, seq: int, result: Any) -> Response:
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
        with self._progress:
            self._seq, self._sent, self._taken = seq, 0, 0
        self._head = None
        if isinstance(result, Response):
            self._open(result)

    def _open(self, first: Any) -> None:
        """Send the head: of a response that has the generator, or of the first thing that it yields."""
        response = first if isinstance(first, Response) else Response()
        self._head = Response(response.headers, None, response.content_type, response.status_code)
        self._send(encode_reply(self._seq, head_of(self._head)))

    def _parts(self, item: Any) -> Iterator[bytes]:
        if self._head is None:
            self._open(item)
        data = body_bytes(body_of(item))
        for at in range(0, len(data), MAX_PART_BYTES):
            yield data[at : at + MAX_PART_BYTES]

    def _has_room(self) -> bool:
        return self._taken == NOBODY or self._sent - self._taken < REPLY_WINDOW_BYTES

    def _put(self, data: bytes) -> None:
        if self._taken == NOBODY:
            raise HandlerReturnedError(_GONE)
        self._sent += len(data)
        self._send(encode_part(self._seq, data, is_last=False))

    def _end(self) -> Response:
        if self._head is None:  # it has yielded nothing
            self._open(None)
        assert self._head is not None
        self._send(encode_part(self._seq, b"", is_last=True))
        self._seq, self._sent_in_parts = -1, self._head
        return self._head


def head_of(response: Response) -> Reply:
    """Return the part of a response that goes before its parts."""
    whole = reply_of(response)
    return Reply(whole.status, whole.content_type, whole.headers, b"", has_more=True)

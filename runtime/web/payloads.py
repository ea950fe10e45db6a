"""Bodies of requests and frames of WebSockets, as handlers read them; what nobody has read is counted."""

import asyncio
from collections.abc import AsyncIterator

from aiohttp import HttpVersion11, StreamReader, WSMessage, WSMsgType, web
from aiohttp.web_protocol import RequestPayloadError

from headrace.runtime.web.connection import Connection
from headrace.runtime.web.refusals import RefusedError, body_too_long, malformed, too_slow

WHOLE_SECONDS = 60.0
"""How long a body that is taken whole may take to come."""
_CONTINUE = "100-continue"
PART_BYTES = 64
"""Memory that each part of a body costs beside its bytes, however short it is."""


async def whole_body(request: web.BaseRequest, most_bytes: int) -> bytes:
    """Return the body of a request. A client that waits for `100 Continue` is told to go on.

    Raises RefusedError where the body is longer than `most_bytes`, takes over a minute, finds no memory, or
    where the client expects something else.
    """
    payload = _checked(request, most_bytes)
    if payload.is_eof():  # as small ones are, which come with their head
        body = payload.read_nowait()
    else:
        await _send_continue(request)
        try:
            async with asyncio.timeout(WHOLE_SECONDS):
                body = await _read(request, most_bytes)
        except TimeoutError:
            raise too_slow() from None
    if len(body) > most_bytes:
        raise body_too_long(most_bytes)
    # The caller has the body from here on, and the server keeps nothing of it.
    _connection(request).memory.set_oldest(0)
    return body


async def body_in_parts(request: web.BaseRequest, most_bytes: int, part_bytes: int) -> AsyncIterator[bytes]:
    """Yield the body of a request as it comes, in parts of at most `part_bytes`.

    Raises RefusedError as `whole_body` does, but the body may take its time.
    """
    payload, connection, taken = _checked(request, most_bytes), _connection(request), 0
    await _send_continue(request)
    try:
        while part := await payload.read(part_bytes):
            taken += len(part)
            if taken > most_bytes:
                raise body_too_long(most_bytes)
            connection.memory.consume_oldest(len(part), payload.total_bytes - taken)
            yield part
        _raise_if_refused(payload)
    except RequestPayloadError:
        raise malformed() from None


async def _read(request: web.BaseRequest, most_bytes: int) -> bytes:
    payload, connection = request.content, _connection(request)
    parts: list[bytes] = []
    taken = 0
    try:
        while part := await payload.readany():
            parts.append(part)
            taken += len(part)
            if taken > most_bytes:
                raise body_too_long(most_bytes)
            # aiohttp's parts are kept as they came until the body is whole: short ones cost more than their
            # bytes.
            connection.memory.set_oldest(taken + PART_BYTES * len(parts))
        _raise_if_refused(payload)
        return b"".join(parts)
    except RequestPayloadError:
        raise malformed() from None
    finally:
        parts.clear()  # an error keeps this frame until its connection has ended


def _raise_if_refused(payload: StreamReader) -> None:
    # A reader that finds the end must not take a body that was refused meanwhile for a whole one.
    if (error := payload.exception()) is not None:
        raise error


def _checked(request: web.BaseRequest, most_bytes: int) -> StreamReader:
    if (request.content_length or 0) > most_bytes:
        raise body_too_long(most_bytes)
    if _expectation(request) not in {"", _CONTINUE}:
        raise RefusedError(417, f"{_CONTINUE} is all that may be expected")
    return request.content


def is_waiting(request: web.BaseRequest) -> bool:
    """Whether a request's body may never come, unless the client is told to go on."""
    return _expectation(request) == _CONTINUE and not request.content.is_eof()


async def _send_continue(request: web.BaseRequest) -> None:
    if is_waiting(request) and not isinstance(request, web.Request):  # an application has told it already
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer hasn't begun


def _expectation(request: web.BaseRequest) -> str:
    if request.version < HttpVersion11:  # HTTP/1.0 knows of no expectations
        return ""
    return ", ".join(request.headers.getall("Expect", ())).strip().lower()


async def frames(request: web.BaseRequest, socket: web.WebSocketResponse) -> AsyncIterator[WSMessage]:
    """Yield the text and binary messages of a WebSocket, until the client goes.

    Each message counts for the server's memory until the next one is asked for. Sockets whose clients have
    sent more than there is memory for are ended with code 1013, the slowest first.
    """
    connection = _connection(request)
    socket._autoping = False  # noqa: SLF001  # pings and pongs are counted, too, until they come by here
    async for frame in socket:
        if frame.type is WSMsgType.PING:
            await socket.pong(frame.data)
        elif frame.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
            yield frame
        connection.frame_memory.release_oldest()


def _connection(request: web.BaseRequest) -> Connection:
    protocol = request.protocol
    assert isinstance(protocol, Connection)
    return protocol

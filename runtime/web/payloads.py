"""Bodies of requests, taken whole or in parts. What has come of them, and nobody has taken, is counted."""

import asyncio
from collections.abc import AsyncIterator

from aiohttp import HttpVersion11, StreamReader, WSMessage, WSMsgType, web
from aiohttp.web_protocol import RequestPayloadError

from headrace.runtime.web.connection import Connection
from headrace.runtime.web.refusals import RefusedError, body_too_long, malformed, too_slow

WHOLE_SECONDS = 60.0


"""How long one that is taken whole may take to come."""


_GO_ON = "100-continue"


PART_BYTES = 64


"""What each part of it costs beside its bytes, however short it is."""


async def whole_body(request: web.BaseRequest, most_bytes: int) -> bytes:
    """A client that waits for it is told to go on.

    Raises RefusedError: it is longer, comes too slowly, finds no room, or something else is expected.
    """
    payload = _checked(request, most_bytes)
    if payload.is_eof():  # as small ones are, which come with their head
        body = payload.read_nowait()
    else:
        await _go_on(request)
        try:
            async with asyncio.timeout(WHOLE_SECONDS):
                body = await _read(request, most_bytes)
        except TimeoutError:
            raise too_slow() from None
    if len(body) > most_bytes:
        raise body_too_long(most_bytes)
    _connection(request).costs.is_now(0)
    return body


async def body_in_parts(request: web.BaseRequest, most_bytes: int, part_bytes: int) -> AsyncIterator[bytes]:
    """As it comes. Raises RefusedError, as `whole_body` does, but it may take its time."""
    payload, connection, taken = _checked(request, most_bytes), _connection(request), 0
    await _go_on(request)
    try:
        while part := await payload.read(part_bytes):
            taken += len(part)
            if taken > most_bytes:
                raise body_too_long(most_bytes)
            connection.costs.take(len(part), payload.total_bytes - taken)
            yield part
        _check_whole(payload)
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
            connection.costs.is_now(taken + PART_BYTES * len(parts))
        _check_whole(payload)
        return b"".join(parts)
    except RequestPayloadError:
        raise malformed() from None
    finally:
        parts.clear()  # an error keeps this frame until its connection has ended


def _check_whole(payload: StreamReader) -> None:
    """It has ended; not because it was refused."""
    if (error := payload.exception()) is not None:
        raise error


def _checked(request: web.BaseRequest, most_bytes: int) -> StreamReader:
    if (request.content_length or 0) > most_bytes:
        raise body_too_long(most_bytes)
    if _expected(request) not in {"", _GO_ON}:
        raise RefusedError(417, f"{_GO_ON} is all that may be expected")
    return request.content


def is_waiting(request: web.BaseRequest) -> bool:
    """Whether its body may never come, unless the client is told to go on."""
    return _expected(request) == _GO_ON and not request.content.is_eof()


async def _go_on(request: web.BaseRequest) -> None:
    if is_waiting(request) and not isinstance(request, web.Request):  # an application has told it already
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer hasn't begun


def _expected(request: web.BaseRequest) -> str:
    """HTTP/1.0 knows of no expectations."""
    if request.version < HttpVersion11:
        return ""
    return ", ".join(request.headers.getall("Expect", ())).strip().lower()


def _connection(request: web.BaseRequest) -> Connection:
    protocol = request.protocol
    assert isinstance(protocol, Connection)
    return protocol


async def frames(request: web.BaseRequest, socket: web.WebSocketResponse) -> AsyncIterator[WSMessage]:
    """Text and bytes, until the client goes; each is held until the next one is asked for.

    Sockets whose clients have sent more than there is room for are ended with code 1013, the slowest first.
    """
    connection = request.protocol
    assert isinstance(connection, Connection)
    socket._autoping = False  # noqa: SLF001  # pings and pongs are held, too, until they come by here
    async for frame in socket:
        if frame.type is WSMsgType.PING:
            await socket.pong(frame.data)
        elif frame.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
            yield frame
        connection.frames.take()

"""Frames of a WebSocket, as its server reads them: what nobody has read is counted."""

from collections.abc import AsyncIterator

from aiohttp import WSMessage, WSMsgType, web

from headrace.runtime.web.connection import Connection


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

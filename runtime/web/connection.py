"""A connection of an HTTP server: aiohttp's, which counts what its client has the server keep."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage

from headrace.runtime.web.limits import SharedLimits
from headrace.runtime.web.memory_budget import FrameMemory, RequestMemory
from headrace.runtime.web.message_framing import HEAD_END, UnclearFramingError, request_ends
from headrace.runtime.web.refusals import (
    FinalResponse,
    RefusedError,
    malformed,
    out_of_memory,
    parser_refusal,
    too_slow,
)

LINGER_SECONDS = 2.0
"""How long what a refused client still sends is taken and dropped, before the connection is closed."""
_READ_BYTES = 1 << 16
"""How much is read at a time, of each of many connections, before any of it is counted."""
_REQUEST_BYTES = 4096
"""Memory that a request costs beside its bytes while it waits behind others."""
_MAX_FRAMING_RATIO = 8
"""How many bytes about chunks a body may have for each byte in them.

Beyond that an end of the chunks that doesn't come may be as long as a head.
"""
_CHUNK_LINE_BYTES = 64
"""Memory that each line of a chunked body costs beside its bytes; a chunk has two ends of a line."""
_CLOSE_FRAME = b"\x88\x02"
_PROTOCOL_ERROR, _TRY_AGAIN_LATER = 1002, 1013
_NO_BYTE_OF_A_HEAD = b"\0"
_HEAD_COPIES = 2
"""How often the bytes of an incomplete head are kept: the parser has them, too."""


class Connection(web.RequestHandler):
    """A connection, whose unparsed heads, unread bodies and unread frames count for its server's budgets.

    aiohttp parses what comes; this class looks beside it only for where requests end. A request that comes
    whole in one piece, as most do, costs one such look and no more.
    """

    def __init__(self, server: web.Server, limits: SharedLimits["Connection"], **options: Any) -> None:
        super().__init__(server, **options)
        self._limits = limits
        self._unparsed = b""
        """Bytes of an incomplete head, or of requests that aiohttp, which has enough, leaves for later."""
        self._is_head_too_long = False
        self.memory: RequestMemory[Connection] = RequestMemory(limits.bodies, self)
        self._body: StreamReader | None = None
        """The body of the last request, while it isn't complete."""
        self._body_bytes = 0
        self._framing_bytes = 0
        self._is_chunked = False
        self._saved_bytes = 0.0
        """Bytes of the body that have come, less those that the least rate has asked for since."""
        self.frame_memory: FrameMemory[Connection] = FrameMemory(limits.frames, self)
        self._drops_input = False
        """Whether all that still comes is dropped: the connection is ending."""
        self._lost: asyncio.Future[None] | None = None

    # ---- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection in, or end it at once where the server has too many."""
        is_accepted = self._limits.connections.on_made(cast("asyncio.Transport", transport))
        # Beside aiohttp's own, which is None once the connection is lost.
        self._own_transport = cast("asyncio.Transport", transport)
        # As much as asyncio may read before a budget has seen any of it.
        self._own_transport.max_size = _READ_BYTES  # type: ignore[attr-defined]  # of asyncio's own
        super().connection_made(transport)
        if not is_accepted:
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Release all that was counted of the connection."""
        self._limits.connections.on_lost(self._own_transport)
        self._limits.forget(self)
        self._drops_input = True
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)
        super().connection_lost(exc)

    def pause_reading(self) -> None:
        """Pause the transport only: a parser that pauses amid a packet would keep what nobody can count."""
        self._reading_paused = True
        self._pause_transport_reading()

    def data_received(self, data: bytes) -> None:
        """Parse and count bytes that have come.

        aiohttp calls it with no bytes to go on with what it has left for later.
        """
        if self._drops_input:
            return
        if self._upgraded:
            self._on_upgraded_data(data)
            return
        if self._is_too_long(data):
            self._refuse_head()
            return
        seen = self._request_count
        super().data_received(data)
        new = self._request_count - seen
        # The quick path: one request, whole, on a connection that waits for no other. Nothing of it is kept.
        if new == 1 and not self.memory and not self._unparsed and self._body is None:
            payload = self._messages[-1][1]
            end = data.find(HEAD_END) + len(HEAD_END) + payload.total_bytes
            if end == len(data) and payload.is_eof():
                self.memory.begin(0)
                return
        self._count(data, new)

    # ---- called by the server

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to what the parser refuses, or to an error that no handler should have raised.

        Raises ConnectionError where nobody can be told: the answer has begun, or the client has gone.
        """
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer has gone")
        if self.transport is None:
            raise ConnectionError("the client has gone")
        if status >= 500:
            self.logger.error("%s %s failed", request.method, request.path, exc_info=exc)
            refused = RefusedError(status, "the server failed: its log says why")
        else:
            refused = parser_refusal(exc, self._limits.max_head_bytes, is_long=self._is_head_too_long)
        return FinalResponse(refused, self.linger)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log an error, unless it comes of what a client has sent, or hasn't: that is no error of ours."""
        if not isinstance(kw.get("exc_info"), RefusedError | web.RequestPayloadError):
            super().log_exception(*args, **kw)

    def on_answered(self) -> None:
        """Release the memory of the oldest request: its handler has returned."""
        self.memory.end_answered(len(self._messages))
        if not self.memory:
            self._limits.unfinished.discard(self)

    async def linger(self) -> None:
        """End the sending side, and drop for LINGER_SECONDS what the client still sends.

        A socket that is closed with unread bytes is reset, and its client may then lose the answer.
        """
        self._drops_input = True
        self._limits.forget(self)
        if self.transport is None:
            return
        with suppress(OSError):  # the client has gone
            self.transport.write_eof()
        self.transport.resume_reading()
        self._lost = asyncio.get_running_loop().create_future()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._lost

    # ---- called by the limits

    def abort(self) -> None:
        """End the connection at once, without a word."""
        self._drops_input = True
        self._own_transport.abort()

    def refuse_body(self) -> None:
        """Refuse the body that is being read: there is no memory for it.

        Whole requests that wait behind others have nobody to tell: then the connection just ends.
        """
        if self._body is None:
            self.abort()
        else:
            self._refuse(out_of_memory())

    def check_rate(self) -> None:
        """Refuse a body that comes too slowly; called again and again while one isn't complete."""
        if self._body is None:
            return
        # While reading is paused it is we who are slow.
        if self.transport is not None and self._own_transport.is_reading():
            saved = min(self._saved_bytes, self._limits.max_saved_bytes)
            self._saved_bytes = saved - self._limits.min_bytes_per_check
        if self._saved_bytes < 0:
            self._refuse(too_slow())
        else:
            self._limits.unfinished.add(self)

    def end_socket(self) -> None:
        """End a WebSocket at once, with code 1013: the memory that it holds is needed."""
        self._end_socket(_TRY_AGAIN_LATER)

    # ---- inside

    def _end_socket(self, code: int) -> None:
        if not self._drops_input and self.transport is not None:
            self.transport.write(_CLOSE_FRAME + code.to_bytes(2))
        self.abort()

    def _on_upgraded_data(self, data: bytes) -> None:
        if self._payload_parser is None:  # before it is told that this is a WebSocket now: none does so
            self.close()
            return
        self.frame_memory.feed(data)
        if not self.frame_memory.is_masked:
            self._end_socket(_PROTOCOL_ERROR)
        if not self._drops_input:
            super().data_received(data)

    def _is_too_long(self, data: bytes) -> bool:
        """Whether a head doesn't end within its limit. Most often one comparison of lengths."""
        most = self._limits.max_head_bytes
        if self._body is not None or len(self._unparsed) + len(data) <= most:
            return False
        return (self._unparsed + data).find(HEAD_END, 0, most) < 0

    def _refuse_head(self) -> None:
        self._is_head_too_long = True
        if self.memory:  # requests before it: the connection ends once they are answered
            self.close()
        else:
            super().data_received(_NO_BYTE_OF_A_HEAD)  # the parser refuses it, and `handle_error` answers
        self._drops_input = True

    def _refuse(self, refused: RefusedError) -> None:
        """Have whoever reads the body find `refused` raised there."""
        body, self._body = self._body, None
        assert body is not None
        self._drops_input = True
        self._limits.forget(self)
        self.memory.forget()
        if not body.is_eof():  # else who reads it would take it for whole
            with suppress(RuntimeError):  # somebody waits for it: nothing is there
                body.read_nowait()
        body.set_exception(refused)
        # Who has just been woken for what was there finds nothing, and waits again before this is looked at.
        self._loop.call_soon(body.set_exception, refused)

    def _count(self, data: bytes, new: int) -> None:
        """Count `data`: bytes of a body, then `new` requests, then the beginning of a head."""
        messages = [self._messages[place] for place in range(-new, 0)]
        if any(not isinstance(message, RawRequestMessage) for message, _ in messages):
            # The parser has refused something, and its error stands for the request.
            if self._body is not None and self._body.is_eof():
                self._on_body(self._unparsed + data, 0)
            elif self._body is not None:
                self._refuse(malformed())
            return
        data = self._unparsed + data
        try:
            end = self._on_body(data, new)
            if new and not self._drops_input:
                end = self._on_requests(data, end, messages)
        except UnclearFramingError:
            self.close()
            return
        if self._drops_input:
            return
        # Bytes behind the request that has asked for a WebSocket: no frame comes before the answer to that.
        if self._upgraded and end < len(data):
            self.close()
        counted, self._unparsed = len(self._unparsed), data[end:]
        # Released before more is added: counted twice, the same bytes might be what evicts the connection.
        self._limits.heads.release(self, _HEAD_COPIES * counted)
        if self._unparsed:
            self._limits.heads.add(self, _HEAD_COPIES * len(self._unparsed))

    def _on_body(self, data: bytes, new: int) -> int:
        """Count the bytes of the body that wasn't complete; return where it ends in `data`, 0 without one."""
        body = self._body
        if body is None:
            return 0
        received = body.total_bytes - self._body_bytes
        self._body_bytes += received
        self._saved_bytes += received
        if not body.is_eof():
            end = len(data)
            self._framing_bytes += end - received
            most = self._limits.max_head_bytes + _MAX_FRAMING_RATIO * self._body_bytes
            if self._framing_bytes > most:
                self._refuse(malformed())
                return end
        elif not self._is_chunked:
            end = received
        # A chunked body and requests behind it, in one piece: where the body ends, only reading its chunks
        # would tell.
        elif new:
            raise UnclearFramingError
        else:
            end = data.rfind(HEAD_END) + len(HEAD_END)
        self.memory.grow_newest(self._cost(data, 0, end))
        if body.is_eof():
            self._body = None
            self._limits.unfinished.discard(self)
        return end

    def _on_requests(self, data: bytes, begin: int, messages: Sequence[tuple[Any, StreamReader]]) -> int:
        """Count new requests, which begin at `begin` in `data`; return where the last one ends."""
        lengths = [None if message.chunked else payload.total_bytes for message, payload in messages]
        last, payload = messages[-1]
        self._is_chunked, self._framing_bytes = last.chunked, 0
        if payload.is_eof():
            places = request_ends(data, begin, lengths)
        else:
            places = (
                [*request_ends(data, begin, lengths[:-1]), len(data)] if len(lengths) > 1 else [len(data)]
            )
            self._body = payload
            self._body_bytes = self._saved_bytes = payload.total_bytes
            self._limits.unfinished.add(self)
        for begins, end in zip([begin, *places], places, strict=False):
            if not self._drops_input:
                self.memory.begin(_REQUEST_BYTES + self._cost(data, begins, end))
        return places[-1]

    def _cost(self, data: bytes, begin: int, end: int) -> int:
        line_count = data.count(b"\r\n", begin, end) if self._is_chunked else 0
        return end - begin + line_count * _CHUNK_LINE_BYTES

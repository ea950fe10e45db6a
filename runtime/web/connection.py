"""One connection: aiohttp's, which counts what its client has it keep."""

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
    no_room,
    parser_refusal,
    too_slow,
)

LINGER_SECONDS = 2.0
"""For what a refused client still sends."""
_PIECE_BYTES = 1 << 16
"""What is read at a time, of each of many connections, before any of it is counted."""
_REQUEST_BYTES = 4096
"""What a request costs that waits behind others, beside its bytes."""
_MOST_FRAMING = 8
"""Bytes about chunks for each byte in them; an end of them that doesn't come may be as long as a head."""
_LINE_BYTES = 64
"""What a chunk costs beside its bytes; it has two ends of a line."""
_CLOSE_FRAME = b"\x88\x02"
_PROTOCOL_ERROR, _TRY_AGAIN_LATER = 1002, 1013
_NO_BYTE_OF_A_HEAD = b"\0"
_TWICE = 2
"""The parser keeps what is here of a head, too."""


class Connection(web.RequestHandler):
    """Requests that came whole in one piece, as most do, cost a look at where that ends and no more."""

    def __init__(self, server: web.Server, bounds: SharedLimits, **options: Any) -> None:
        super().__init__(server, **options)
        self._bounds = bounds
        self._rest = b""
        """Of a head that isn't complete; or requests that aiohttp, which has enough, leaves for later."""
        self._is_head_too_long = False
        self.costs: RequestMemory[Connection] = RequestMemory(bounds.bodies, self)
        self._body: StreamReader | None = None
        """Of the last request, while it isn't complete."""
        self._body_bytes = 0
        self._framing_bytes = 0
        self._is_chunked = False
        self._come_lately = 0.0
        """Bytes of it, less those that the least rate has asked for."""
        self.frames: FrameMemory[Connection] = FrameMemory(bounds.frames, self)
        self._is_deaf = False
        """Nothing that comes is looked at any more."""
        self._lost: asyncio.Future[None] | None = None

    # ---- for asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio says."""
        has_room = self._bounds.connections.on_made(cast("asyncio.Transport", transport))
        self._own_transport = cast("asyncio.Transport", transport)
        self._own_transport.max_size = _PIECE_BYTES  # type: ignore[attr-defined]  # of asyncio's own
        super().connection_made(transport)
        if not has_room:
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """As asyncio says."""
        self._bounds.connections.on_lost(self._own_transport)
        self._bounds.forget(self)
        self._is_deaf = True
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)
        super().connection_lost(exc)

    def pause_reading(self) -> None:
        """The transport only: a parser that pauses amid a packet would keep what nobody can count."""
        self._reading_paused = True
        self._pause_transport_reading()

    def data_received(self, data: bytes) -> None:
        """As asyncio says; aiohttp calls it with nothing to go on with what it has left for later."""
        if self._is_deaf:
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
        if new == 1 and not self.costs and not self._rest and self._body is None:
            payload = self._messages[-1][1]
            end = data.find(HEAD_END) + len(HEAD_END) + payload.total_bytes
            if end == len(data) and payload.is_eof():
                self.costs.begin(0)
                return
        self._count(data, new)

    # ---- for its server

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What the parser refuses, and what no handler should have raised."""
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer has gone")
        if self.transport is None:
            raise ConnectionError("the client has gone")
        if status >= 500:
            self.logger.error("%s %s failed", request.method, request.path, exc_info=exc)
            return FinalResponse(self, RefusedError(status, "the server failed: its log says why"))
        return FinalResponse(
            self, parser_refusal(exc, self._bounds.most_head_bytes, is_long=self._is_head_too_long)
        )

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """But for what a client has sent, or hasn't: that is no error of ours."""
        if not isinstance(kw.get("exc_info"), RefusedError | web.RequestPayloadError):
            super().log_exception(*args, **kw)

    def on_answered(self) -> None:
        """The oldest request, as far as its handler is concerned."""
        self.costs.end(len(self._messages))
        if not self.costs:
            self._bounds.unfinished.discard(self)

    async def linger(self) -> None:
        """As Lingers says: the client sees the end, and what it still sends is dropped."""
        self._is_deaf = True
        self._bounds.forget(self)
        if self.transport is None:
            return
        with suppress(OSError):  # the client has gone
            self.transport.write_eof()
        self.transport.resume_reading()
        self._lost = asyncio.get_running_loop().create_future()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._lost

    # ---- for its bounds

    def abort(self) -> None:
        """At once, without a word."""
        self._is_deaf = True
        self._own_transport.abort()

    def refuse_body(self) -> None:
        """There is no room for it; what waits whole behind other requests has nobody to tell."""
        if self._body is None:
            self.abort()
        else:
            self._refuse(no_room())

    def check_rate(self) -> None:
        """A body that isn't there after some time, or some more."""
        if self._body is None:
            return
        if self.transport is not None and self._own_transport.is_reading():
            self._come_lately = min(self._come_lately, self._bounds.most_lately) - self._bounds.least_lately
        if self._come_lately < 0:
            self._refuse(too_slow())
        else:
            self._bounds.unfinished.add(self)

    def end_socket(self) -> None:
        """At once, with a code: what it holds has to go."""
        self._end_socket(_TRY_AGAIN_LATER)

    # ---- inside

    def _end_socket(self, code: int) -> None:
        if not self._is_deaf and self.transport is not None:
            self.transport.write(_CLOSE_FRAME + code.to_bytes(2))
        self.abort()

    def _on_upgraded_data(self, data: bytes) -> None:
        if self._payload_parser is None:  # before it is told that this is a WebSocket now: none does so
            self.close()
            return
        self.frames.feed(data)
        if not self.frames.ends.is_masked:
            self._end_socket(_PROTOCOL_ERROR)
        if not self._is_deaf:
            super().data_received(data)

    def _is_too_long(self, data: bytes) -> bool:
        """Whether a head doesn't end within what it may be long. Most often a look at a number."""
        most = self._bounds.most_head_bytes
        if self._body is not None or len(self._rest) + len(data) <= most:
            return False
        return (self._rest + data).find(HEAD_END, 0, most) < 0

    def _refuse_head(self) -> None:
        self._is_head_too_long = True
        if self.costs:
            self.close()
        else:
            super().data_received(_NO_BYTE_OF_A_HEAD)
        self._is_deaf = True

    def _refuse(self, refused: RefusedError) -> None:
        """Whoever reads the body is told."""
        body, self._body = self._body, None
        assert body is not None
        self._is_deaf = True
        self._bounds.forget(self)
        self.costs.forget()
        if not body.is_eof():  # else who reads it would take it for whole
            with suppress(RuntimeError):  # somebody waits for it: nothing is there
                body.read_nowait()
        body.set_exception(refused)
        # Who has just been woken for what was there finds nothing, and waits again before this is looked at.
        self._loop.call_soon(body.set_exception, refused)

    def _count(self, data: bytes, new: int) -> None:
        """What came now: of a body, whole requests, and what is behind them."""
        messages = [self._messages[place] for place in range(-new, 0)]
        if any(not isinstance(message, RawRequestMessage) for message, _ in messages):
            if self._body is not None and self._body.is_eof():
                self._on_body(self._rest + data, 0)
            elif self._body is not None:
                self._refuse(malformed())
            return
        data = self._rest + data
        try:
            end = self._on_body(data, new)
            if new and not self._is_deaf:
                end = self._on_requests(data, end, messages)
        except UnclearFramingError:
            self.close()
            return
        if self._is_deaf:
            return
        if self._upgraded and end < len(data):
            self.close()
        held, self._rest = len(self._rest), data[end:]
        self._bounds.heads.give_back(self, _TWICE * held)
        if self._rest:
            self._bounds.heads.hold(self, _TWICE * len(self._rest))

    def _on_body(self, data: bytes, new: int) -> int:
        """Where the body ends that wasn't complete, if there is one."""
        body = self._body
        if body is None:
            return 0
        come = body.total_bytes - self._body_bytes
        self._body_bytes += come
        self._come_lately += come
        if not body.is_eof():
            end = len(data)
            self._framing_bytes += end - come
            if self._framing_bytes > self._bounds.most_head_bytes + _MOST_FRAMING * self._body_bytes:
                self._refuse(malformed())
                return end
        elif not self._is_chunked:
            end = come
        elif new:
            raise UnclearFramingError
        else:
            end = data.rfind(HEAD_END) + len(HEAD_END)
        self.costs.grow(self._cost(data, 0, end))
        if body.is_eof():
            self._body = None
            self._bounds.unfinished.discard(self)
        return end

    def _on_requests(self, data: bytes, begin: int, messages: Sequence[tuple[Any, StreamReader]]) -> int:
        """Where the last one ends."""
        lengths = [None if message.chunked else payload.total_bytes for message, payload in messages]
        last, payload = messages[-1]
        self._is_chunked, self._framing_bytes = last.chunked, 0
        if payload.is_eof():
            places = request_ends(data, begin, lengths)
        else:
            places = (
                [*request_ends(data, begin, lengths[:-1]), len(data)] if len(lengths) > 1 else [len(data)]
            )
            self._body, self._body_bytes, self._come_lately = (
                payload,
                payload.total_bytes,
                payload.total_bytes,
            )
            self._bounds.unfinished.add(self)
        for begins, end in zip([begin, *places], places, strict=False):
            if not self._is_deaf:
                self.costs.begin(_REQUEST_BYTES + self._cost(data, begins, end))
        return places[-1]

    def _cost(self, data: bytes, begin: int, end: int) -> int:
        line_count = data.count(b"\r\n", begin, end) if self._is_chunked else 0
        return end - begin + line_count * _LINE_BYTES

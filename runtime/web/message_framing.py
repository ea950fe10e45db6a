"""Ends of requests, and of WebSocket messages, in the bytes that have come over a connection. Pure."""

from collections import deque
from collections.abc import Sequence

HEAD_END = b"\r\n\r\n"


class UnclearFramingError(Exception):
    """Pipelined requests whose ends can't be told without reading chunks."""


def request_ends(data: bytes, begin: int, bodies: Sequence[int | None]) -> list[int]:
    """Return the end of each request that ends in `data`, as indexes; the first request begins at `begin`.

    `bodies` has the length of each body, None for a chunked one. An incomplete head has no HEAD_END, so the
    last HEAD_END of `data` is the end of a chunked body that no other request follows. What is left behind
    the last end is a head that isn't complete. Raises UnclearFramingError.
    """
    found: list[int] = []
    for number, length in enumerate(bodies):
        if length is None:
            if number < len(bodies) - 1:
                raise UnclearFramingError
            found.append(data.rfind(HEAD_END) + len(HEAD_END))
        else:
            head = data.find(HEAD_END, begin)
            if head < 0:
                raise UnclearFramingError
            found.append(head + len(HEAD_END) + length)
        begin = found[-1]
    return found


FRAME_OVERHEAD_BYTES = 256
"""Memory that a frame costs beside its bytes, however short it is."""
_FIN, _MASK, _CLOSE = 0x80, 0x80, 0x08


class FrameTracker:
    """Follows the frames of a WebSocket, to know what each unread message costs.

    Payloads aren't looked at, and errors are left to the parser that reads the same bytes.
    """

    def __init__(self) -> None:
        self.unread: deque[int] = deque()
        """Cost in bytes of each unread message, and of each ping and pong, in order of arrival."""
        self.total_bytes = 0
        """Bytes in all, and FRAME_OVERHEAD_BYTES for each frame."""
        self._frame_bytes = 0
        self._message_bytes = 0  # of the frames before, where a message has several
        self.is_masked = True
        """Whether all frames are masked, as those of clients have to be."""
        self._head = b""
        self._payload_left = 0
        self._opcode = 0
        self._is_last = False

    def feed(self, data: bytes) -> int:
        """Follow bytes that have come, and return how much more memory they cost."""
        before, at = self.total_bytes, 0
        while at < len(data):
            if self._payload_left:
                part = min(self._payload_left, len(data) - at)
                self._payload_left -= part
                at += part
                self._add(part)
                self._end_frame()
                continue
            wanted = _head_bytes(self._head)
            part = min(wanted - len(self._head), len(data) - at)
            self._head += data[at : at + part]
            at += part
            self._add(part)
            if len(self._head) == _head_bytes(self._head):
                self._begin_frame()
        return self.total_bytes - before

    def _begin_frame(self) -> None:
        first, length = self._head[0], self._head[1] & 0x7F
        extended = {126: 2, 127: 8}.get(length, 0)
        self._payload_left = int.from_bytes(self._head[2 : 2 + extended]) if extended else length
        self.is_masked = self.is_masked and bool(self._head[1] & _MASK)
        self._is_last, self._opcode = bool(first & _FIN), first & 0x0F
        self._head = b""
        self._add(FRAME_OVERHEAD_BYTES)
        # A frame may have no payload: then this was all of it.
        self._end_frame()

    def _end_frame(self) -> None:
        if self._payload_left:
            return
        if self._opcode >= _CLOSE:  # a control frame: it may come between the frames of a message
            self.unread.append(self._frame_bytes)
        else:
            self._message_bytes += self._frame_bytes
            if self._is_last:
                self.unread.append(self._message_bytes)
                self._message_bytes = 0
        self._frame_bytes = 0

    def _add(self, byte_count: int) -> None:
        self.total_bytes += byte_count
        self._frame_bytes += byte_count


def _head_bytes(known: bytes) -> int:
    """Return how long a frame's head is, as far as its beginning tells."""
    if len(known) < 2:
        return 2
    # RFC 6455 (5.2): 126 and 127 stand for a length of 16 or 64 bits that follows, then comes the mask.
    extended = {126: 2, 127: 8}.get(known[1] & 0x7F, 0)
    return 2 + extended + (4 if known[1] & _MASK else 0)

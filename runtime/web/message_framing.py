"""Where requests end in what has come of a connection: what is left is a head that isn't complete. Pure."""

from collections import deque
from collections.abc import Sequence

HEAD_END = b"\r\n\r\n"


class UnclearFramingError(Exception):
    """Requests behind each other, whose ends can't be told without reading chunks."""


def request_ends(data: bytes, begin: int, bodies: Sequence[int | None]) -> list[int]:
    """The end of each request that ends in `data`, as places in it; the first begins at `begin`.

    `bodies` has each one's length, None for one in chunks. Heads that are incomplete have no HEAD_END, so
    behind a last request without a length the last one is its end. Raises UnclearFramingError.
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


"""What a message costs beside its bytes, however short it is."""


_FIN, _MASK, _CLOSE = 0x80, 0x80, 0x08


class FrameTracker:
    """Follows frames, and looks into none: whoever reads them finds what is wrong with them."""

    def __init__(self) -> None:
        self.whole: deque[int] = deque()
        """What each costs that nobody has taken: a message, or a ping or a pong, which may come amid one."""
        self.come = 0
        """Bytes in all, and FRAME_OVERHEAD_BYTES for each frame."""
        self._frame = self._fragments = 0
        """Of `come`: of the frame that isn't whole, and of a message's frames before it."""
        self.is_masked = True
        """All of them, as those of clients have to be."""
        self._head = b""
        self._payload_left = 0
        self._opcode = 0
        self._is_last = False

    def feed(self, data: bytes) -> int:
        """What has come now; how much more that holds."""
        before, at = self.come, 0
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
        return self.come - before

    def _begin_frame(self) -> None:
        first, length = self._head[0], self._head[1] & 0x7F
        extended = {126: 2, 127: 8}.get(length, 0)
        self._payload_left = int.from_bytes(self._head[2 : 2 + extended]) if extended else length
        self.is_masked = self.is_masked and bool(self._head[1] & _MASK)
        self._is_last, self._opcode = bool(first & _FIN), first & 0x0F
        self._head = b""
        self._add(FRAME_OVERHEAD_BYTES)
        self._end_frame()

    def _end_frame(self) -> None:
        if self._payload_left:
            return
        if self._opcode >= _CLOSE:
            self.whole.append(self._frame)
        else:
            self._fragments += self._frame
            if self._is_last:
                self.whole.append(self._fragments)
                self._fragments = 0
        self._frame = 0

    def _add(self, byte_count: int) -> None:
        self.come += byte_count
        self._frame += byte_count


def _head_bytes(known: bytes) -> int:
    """Of a frame, as far as that much of its head tells."""
    if len(known) < 2:
        return 2
    extended = {126: 2, 127: 8}.get(known[1] & 0x7F, 0)
    return 2 + extended + (4 if known[1] & _MASK else 0)

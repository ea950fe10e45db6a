"""What messages cost in what a client of a WebSocket sends, and where they end. Pure."""

from collections import deque

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

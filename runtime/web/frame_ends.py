"""Where messages end in what a client of a WebSocket sends. Pure."""

from collections import deque

MESSAGE_BYTES = 256
"""What a message costs beside its bytes, however short it is."""
_FIN, _CONTINUED_OR_DATA, _MASK = 0x80, 0x02, 0x80


class FrameEnds:
    """Follows frames, and looks into none: whoever reads them finds what is wrong with them."""

    def __init__(self) -> None:
        self.ends: deque[int] = deque()
        """For each message that nobody has taken, how much had come with it."""
        self.come = 0
        """Bytes in all, and MESSAGE_BYTES for each frame."""
        self.is_masked = True
        """All of them, as those of clients have to be."""
        self._head = b""
        self._payload_left = 0
        self._ends_message = False

    def feed(self, data: bytes) -> int:
        """What has come now; how much more that holds."""
        before, at = self.come, 0
        while at < len(data):
            if self._payload_left:
                part = min(self._payload_left, len(data) - at)
                self._payload_left -= part
                at += part
                self.come += part
                self._end_frame()
                continue
            wanted = _head_bytes(self._head)
            part = min(wanted - len(self._head), len(data) - at)
            self._head += data[at : at + part]
            at += part
            self.come += part
            if len(self._head) == _head_bytes(self._head):
                self._begin_frame()
        return self.come - before

    def _begin_frame(self) -> None:
        first, length = self._head[0], self._head[1] & 0x7F
        extended = {126: 2, 127: 8}.get(length, 0)
        self._payload_left = int.from_bytes(self._head[2 : 2 + extended]) if extended else length
        self.is_masked = self.is_masked and bool(self._head[1] & _MASK)
        self._ends_message = bool(first & _FIN) and (first & 0x0F) <= _CONTINUED_OR_DATA
        self._head = b""
        self.come += MESSAGE_BYTES
        self._end_frame()

    def _end_frame(self) -> None:
        if not self._payload_left and self._ends_message:
            self._ends_message = False
            self.ends.append(self.come)


def _head_bytes(known: bytes) -> int:
    """Of a frame, as far as that much of its head tells."""
    if len(known) < 2:
        return 2
    extended = {126: 2, 127: 8}.get(known[1] & 0x7F, 0)
    return 2 + extended + (4 if known[1] & _MASK else 0)

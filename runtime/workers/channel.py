"""The processor's end of a worker's socket: bytes in, frames out, and back."""

import array
import asyncio
import fcntl
import logging
import socket
import termios
from collections import deque
from collections.abc import Callable
from itertools import islice

from headrace.runtime.wire.framing import (
    Buffer,
    FrameKind,
    ProtocolViolationError,
    has_nested_frame,
    split_frames,
)

logger = logging.getLogger(__name__)

# So much may be all small frames: some ms in which no other worker is read, and no heartbeat sent.
_BYTES_PER_READ = 1 << 16
_PIECES_PER_WRITE = 64
OnFrame = Callable[[FrameKind, bytes], None]


class Channel:
    """Frames to and from one worker, on the running event loop.

    Not an asyncio transport: that one closes when a write fails, and what the dead worker still said would go
    unread. Here reading goes on to the end whatever happens to writes.
    """

    def __init__(self, sock: socket.socket) -> None:
        """`sock`: closed with the channel. Nothing is read before `listen`."""
        self._sock = sock
        self._on_frame: OnFrame
        self._on_read: Callable[[], None]
        self._on_end: Callable[[], None]
        self._on_violation: Callable[[str], None]
        self._received = bytearray()
        self._unsent: deque[memoryview] = deque()
        self._is_open = True
        # The kernel has no room for more: what is left is written once it has.
        self._is_blocked = False
        self.is_broken = False
        """Whether something that the worker said could not be taken in: nobody knows what followed."""
        self._loop = asyncio.get_running_loop()
        sock.setblocking(False)

    def listen(
        self,
        on_frame: OnFrame,
        on_read: Callable[[], None],
        on_end: Callable[[], None],
        on_violation: Callable[[str], None],
    ) -> None:
        """Read from now on. To be called once.

        `on_read` is called after the frames of a read, `on_end` once, when the other side has closed.
        `on_violation` is called once before that, if the worker said what can't be.
        """
        self._on_frame, self._on_read = on_frame, on_read
        self._on_end, self._on_violation = on_end, on_violation
        self._loop.add_reader(self._sock, self._read_some)

    def send(self, *data: Buffer) -> None:
        """Send one or more frames, in pieces. Never blocks; lost if the worker is dead: its exit tells.

        What is sent before `flush`, or in one turn of the event loop, leaves together.
        """
        # One write for all that this turn of the loop sends: the worker wakes once for it.
        if not self._unsent:
            self._loop.call_soon(self.flush)
        self._unsent.extend(memoryview(piece) for piece in data if piece)

    def flush(self) -> None:
        """Write all that waits to be sent now, not at the end of this turn of the loop."""
        if self._unsent:
            self._write_some()

    def read_available(self) -> None:
        """Pass on all that the worker has sent by now, but not what it sends meanwhile."""
        # No more than is there now: a handler that prints all the time would keep this from ever ending.
        waiting = self._waiting_bytes()
        while self._is_open and waiting > 0:
            waiting -= self._read_some()
        # An incomplete frame is left. If another one begins within it, its rest never comes.
        if self._is_open and has_nested_frame(self._received):
            self.refuse("a frame in a frame that doesn't end")

    def drain_and_close(self) -> None:
        """Read all that is there, then close. Idempotent."""
        self.read_available()
        self._close()

    def _waiting_bytes(self) -> int:
        if not self._is_open:
            return 0
        count = array.array("i", [0])
        fcntl.ioctl(self._sock, termios.FIONREAD, count)
        return count[0]

    def _read_some(self) -> int:
        """Return how many bytes came. The end, or what can't be understood, ends the channel."""
        try:
            data = self._sock.recv(_BYTES_PER_READ)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        self._received += data
        try:
            for kind, body in split_frames(self._received, from_worker=True):
                self._on_frame(kind, body)
            self._on_read()
        except ProtocolViolationError as error:
            self.refuse(str(error))
        except Exception as error:
            logger.exception("a worker sent what its processor can't handle")
            self.refuse(repr(error))
        else:
            if not data:
                # The worker has closed it, so it can be of no use. Its exit, not this, decides on its
                # records.
                self._end()
        return len(data)

    def refuse(self, why: str) -> None:
        """Take in nothing of the worker from now on, and end the channel. Idempotent."""
        if not self.is_broken:
            # Left as it is, this frame would come up at every read, and nothing behind it ever.
            self.is_broken = True
            self._on_violation(why)
            self._end()

    def _end(self) -> None:
        self._close()
        self._on_end()

    def _write_some(self) -> None:
        try:
            self._drop(self._sock.sendmsg(islice(self._unsent, _PIECES_PER_WRITE)))
        except BlockingIOError:
            pass
        # It is closed, or its other end is.
        except OSError:
            # Nobody will read it. Reading goes on: what the worker said before is still in the socket.
            self._unsent.clear()
        # Watched for room only while something waits: otherwise the loop would turn for nothing.
        if self._is_open and self._is_blocked != bool(self._unsent):
            self._is_blocked = not self._is_blocked
            if self._is_blocked:
                self._loop.add_writer(self._sock, self._write_some)
            else:
                self._loop.remove_writer(self._sock)

    def _drop(self, sent: int) -> None:
        while self._unsent and sent >= len(self._unsent[0]):
            sent -= len(self._unsent.popleft())
        if sent:
            self._unsent[0] = self._unsent[0][sent:]

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            # Before the socket is closed: its number may be another descriptor right after.
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._sock.close()

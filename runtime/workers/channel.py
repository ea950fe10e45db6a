"""The processor's end of a worker's socket."""

import array
import asyncio
import fcntl
import logging
import socket
import termios
from collections import deque
from collections.abc import Callable
from itertools import islice

from headrace.runtime.wire import records as wire

logger = logging.getLogger(__name__)

# All of it may be small frames: some ms in which no other worker is heard, and no heartbeat sent.
_BYTES_PER_READ = 1 << 16
_PIECES_PER_WRITE = 64
OnFrame = Callable[[wire.FrameKind, bytes], None]


class Channel:
    """Frames to and from one worker, on the running event loop.

    Not an asyncio transport: that one closes when a write fails, and with it goes unread what the dead worker
    still said. Here reading goes on to the end whatever happens to writes.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_frame: OnFrame,
        on_read: Callable[[], None],
        on_end: Callable[[], None],
        on_nonsense: Callable[[str], None],
    ) -> None:
        """`on_read` is called after the frames of a read, `on_end` once, when the other side has closed.

        `on_nonsense` is called once before that, where it said what can't be.
        """
        self._sock = sock
        self._on_frame = on_frame
        self._on_read = on_read
        self._on_end = on_end
        self._on_nonsense = on_nonsense
        self._received = bytearray()
        self._unsent: deque[memoryview] = deque()
        self._is_open = True
        self._is_blocked = False  # it is written when there is room
        self.is_broken = False
        """Something that the worker said could not be taken in: what it said after that isn't known."""
        self._loop = asyncio.get_running_loop()
        sock.setblocking(False)
        self._loop.add_reader(sock, self._read_some)

    def send(self, *data: wire.Buffer) -> None:
        """Never blocks. Lost if the worker is dead, which its exit will tell.

        What is sent before `flush`, or in one turn of the event loop, leaves together.
        """
        if not self._unsent:
            self._loop.call_soon(self.flush)
        self._unsent.extend(memoryview(piece) for piece in data if piece)

    def flush(self) -> None:
        """Write what waits now, not at the end of this turn."""
        if self._unsent:
            self._write_some()

    def read_available(self) -> None:
        """Pass on all that the worker has sent by now; what it goes on sending meanwhile has to wait."""
        waiting = self._waiting_bytes()  # reading to the end has none while a handler prints
        while self._is_open and waiting > 0:
            waiting -= self._read_some()
        if self._is_open and wire.has_swallowed(self._received):
            self.refuse("a frame in a frame that doesn't end")

    def drain_and_close(self) -> None:
        """Read what is there, then close. Idempotent."""
        self.read_available()
        self._close()

    def _waiting_bytes(self) -> int:
        if not self._is_open:
            return 0
        count = array.array("i", [0])
        fcntl.ioctl(self._sock, termios.FIONREAD, count)
        return count[0]

    def _read_some(self) -> int:
        """How many bytes came; the end, or what can't be understood, ends the channel."""
        try:
            data = self._sock.recv(_BYTES_PER_READ)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        self._received += data
        try:
            for kind, body in wire.split_frames(self._received, is_said=True):
                self._on_frame(kind, body)
            self._on_read()
        except wire.ProtocolViolationError as error:
            self.refuse(str(error))
        except Exception as error:
            logger.exception("a worker sent what its processor can't handle")
            self.refuse(repr(error))
        else:
            if not data:
                self._end()
        return len(data)

    def refuse(self, why: str) -> None:
        """Nothing that it says from now on is heard. Idempotent."""
        if not self.is_broken:
            # Left as it is, this frame would come up at every read, and nothing behind it ever.
            self.is_broken = True
            self._on_nonsense(why)
            self._end()

    def _end(self) -> None:
        self._close()
        self._on_end()

    def _write_some(self) -> None:
        try:
            self._drop(self._sock.sendmsg(islice(self._unsent, _PIECES_PER_WRITE)))
        except BlockingIOError:
            pass
        except OSError:  # closed, or its other end is
            self._unsent.clear()
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
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._sock.close()

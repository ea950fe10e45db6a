"""The worker's end of its socket."""

import json
import socket
import threading
from typing import Protocol

from headrace.runtime.processes import die
from headrace.runtime.wire import frames as wire
from headrace.runtime.wire.frames import Kind
from headrace.runtime.wire.progress_slot import ProgressSlot

_RECEIVE_BYTES = 1 << 18
NO_RECORD = 2**64 - 1


class Sender(Protocol):
    """What a worker says goes to its processor, from any thread."""

    def send(self, data: bytes) -> None:
        """Whole frames."""


class Link:
    """The socket to the processor: one reader, many writers."""

    def __init__(self, sock: socket.socket, slot: ProgressSlot) -> None:
        sock.set_inheritable(False)  # what a handler starts must not keep it open
        self._sock = sock
        self._slot = slot
        self._send_lock = threading.Lock()
        self._received = bytearray()
        self._is_abandoned = False

    def send(self, data: bytes) -> None:
        """Returns once the kernel has it: it reaches the processor even if this process is killed now."""
        if self._is_abandoned:
            return
        try:
            with self._send_lock:
                self._sock.sendall(data)
        except OSError:
            die()

    def abandon(self) -> None:
        """In a process that the handler has forked: it shares the socket, and has no part in it."""
        self._is_abandoned = True
        self._sock.close()

    def send_log(self, line: dict[str, object]) -> None:
        """A log line, bound to the record that runs now."""
        now = self._slot.read()
        self.send(wire.encode_about(Kind.LOG, now.seq if now.is_running else NO_RECORD, json.dumps(line)))

    def receive(self) -> list[tuple[Kind, bytes]]:
        """The next frames, at least one. The processor's death is ours."""
        while not (frames := list(wire.split_frames(self._received))):
            try:
                data = self._sock.recv(_RECEIVE_BYTES)
            except OSError:
                die()
            if not data:
                die()  # with what the handler has started, which the kernel's signal leaves alone
            self._received += data
        return frames

"""The worker's end of its socket to the processor."""

import json
import socket
from collections import deque
from typing import cast

from headrace.runtime.processes import die
from headrace.runtime.wire.framing import MAX_LINE, FrameKind, bounded_values, partial_chunk, split_frames
from headrace.runtime.wire.outcomes import encode_about
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.worker.api.record_id import CURRENT_RECORD_ID
from headrace.runtime.worker.api.serial_writer import SerialWriter

_RECEIVE_BYTES = 1 << 16
NO_RECORD = 2**64 - 1


class Link:
    """The socket to the processor: one reader, many writers."""

    def __init__(self, sock: socket.socket, slot: ProgressSlot) -> None:
        sock.set_inheritable(False)  # what a handler starts must not keep it open
        self._sock = sock
        self._slot = slot
        self._write = SerialWriter(self._write_frames)
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))  # kept: mapping so much memory anew costs more
        self._received = bytearray()
        self._is_abandoned = False

    def send(self, data: bytes) -> None:
        """Write whole frames. They reach the processor even if this process is killed once this returns."""
        if not self._is_abandoned:
            self._write((data, []))

    def _write_frames(self, waiting: deque[tuple[bytes, list[int]]]) -> None:
        """Write what waits: whole frames, each with how many bytes of it were written, piece by piece."""
        while waiting:
            data, written = waiting[0]
            rest = data[sum(written) :] if written else data
            try:
                # By map: no signal handler runs, and raises, between a write and the note of it.
                written.extend(map(self._sock.send, (rest,)))
            except OSError as error:
                if error.errno is None:
                    raise  # by a signal handler, as a timeout is
                die()
            if written[-1] == len(rest):
                waiting.popleft()

    def abandon(self) -> None:
        """Close the socket, in a process that the handler has forked: it shares it, and has no part in it."""
        self._is_abandoned = True
        self._sock.close()

    def send_log(self, line: dict[str, object]) -> None:
        """Send a log line, bound to the record that its task works for, or else to the one that runs now."""
        now = self._slot.read()
        if (record_id := CURRENT_RECORD_ID.get()) is not None:
            line["of"] = record_id
        text = json.dumps(line)
        if len(text) > MAX_LINE:
            text = json.dumps(line | {"with": bounded_values(cast("dict[str, object]", line["with"]))})
        self.send(encode_about(FrameKind.LOG, now.seq if now.is_running else NO_RECORD, text))

    def receive(self) -> list[tuple[FrameKind, bytes]]:
        """Return the next frames, at least one. Where the processor is gone, this process ends."""
        while not (frames := list(split_frames(self._received))):
            if (chunk := self._chunk()) is not None:
                return [(FrameKind.CHUNK, cast("bytes", chunk))]  # nobody writes to it any more
            count = self._read_into(self._buffer)
            self._received += self._buffer[:count]
        return frames

    def _chunk(self) -> bytearray | None:
        """Return a whole chunk, where one has begun to come: the kernel alone copies most of its bytes."""
        if (begun := partial_chunk(self._received)) is None:
            return None
        size, here = begun
        chunk = bytearray(size)
        at = len(here)
        chunk[:at] = here
        here.release()
        self._received.clear()
        with memoryview(chunk) as view:
            while at < size:
                at += self._read_into(view[at:])
        return chunk

    def _read_into(self, buffer: memoryview) -> int:
        try:
            count = self._sock.recv_into(buffer)
        except OSError:
            die()
        if not count:
            die()  # with what the handler has started, which the kernel's signal leaves alone
        return count

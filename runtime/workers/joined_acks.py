"""Acks on their way from a worker's socket: those of offsets that follow each other become one."""

from collections.abc import Callable
from dataclasses import replace

from headrace.runtime.wire.records import Ack, decode_ack, decode_ack_offset


class JoinedAcks:
    """Holds back the last one, until `flush` or until one comes that doesn't go on from there."""

    def __init__(self, pass_on: Callable[[Ack], None]) -> None:
        self._pass_on = pass_on
        self._first: Ack | None = None  # of those that were joined
        self._about = b""  # all of it but the offset
        self._next = 0
        self._count = 0

    def add(self, body: bytes) -> None:
        """An ACK frame has come. Raises what decode_ack does, and then has taken nothing in."""
        offset = decode_ack_offset(body)
        about = body[:-8]
        if self._first is not None and offset == self._next and about == self._about:
            self._count += 1
        else:
            first = decode_ack(body)
            self.flush()
            self._first, self._about, self._count = first, about, 1
        self._next = offset + 1

    def flush(self) -> None:
        """Pass on what is held back."""
        if self._first is not None:
            ack, self._first = self._first, None
            self._pass_on(replace(ack, offset=self._next - 1, count=self._count))

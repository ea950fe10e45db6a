"""Frames between a processor and one of its workers, over a socketpair: kinds, heads and limits.

A frame is its length (of all that follows), its kind with a signature, and a body. Numbers are little-endian.
docs/design/wire.md says what each kind means, and in which order they come.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_REASON = 16_384
"""Characters of a failure's text. Both ends cut what is longer: see `bounded`."""
MAX_LINE = 65_536
"""Characters of a log line, and of all values that are bound to it."""
# More characters than the note on what was left out has.
_NOTE = 64

# Bytes of one frame from a worker: a reply or a produced message may be long, anything else is short.
_MAX_LONG_BYTES = 64 << 20
_MAX_SHORT_BYTES = 2 << 20
# Beside each kind, so that bytes that are no frame are noticed at once. None of the three is ever in UTF-8.
_SIGNATURE = b"\xfe\xc0\xff"
_HEAD = struct.Struct("<IB3s")
_KIND_BYTES = 4


class ProtocolViolationError(Exception):
    """A worker has said something impossible, or something that it can't know.

    Workers run anybody's code, which may write to their sockets. The worker is killed, and nothing that it
    says from then on counts.
    """


class FrameKind(IntEnum):
    """Kinds of frames. Below 16: to the worker; from 16 on: from it."""

    # To the worker:
    START = 1  # JSON: WorkerStart; the first frame
    LANE = 2  # JSON: id, topic, partition, log; before its first run
    RUN = 3  # records to handle, in order
    RECALL = 4  # give back what hasn't started of one lane
    STOP = 5  # exit once idle
    FORGET = 6  # a lane is over, and nothing of it is here
    DRAIN = 7  # partitions are being taken away: call the drain callback
    TERMINATE = 8  # the replica stops: call the termination callback
    OWNED = 9  # JSON: partitions of all triggers that may be acked here, and their logs; replaces the last
    CANCEL = 10  # seq, then UTF-8: why that record is to be cancelled, if it still runs
    TAKEN = 11  # seq, and how many bytes of its answer's parts were taken; all ones: nobody takes any more
    CHUNK = 12  # undecoded records, which the SLICE behind it names, and others may
    SLICE = 13  # records of a CHUNK to handle, in order
    PRODUCED = 14  # what became of messages that it had produced: see wire/produce.py
    # From the worker:
    READY = 16  # the handler is loaded; one byte: 1 if it is async
    INIT_FAILED = 17  # UTF-8: why the handler can't be loaded
    PROGRESS = 18  # all before seq succeeded, except those that were named
    FAILED = 19  # a record failed, or several of a batch: a span of seq, is_named, then UTF-8 reason
    RETURNED = 20  # spans of seq that were not started
    LOG = 21  # seq, then JSON: level, message, with; perhaps of, source, error
    ACK = 22  # an explicit ack
    UNACKED = 23  # one record returned, and asks not to be acked: seq
    SPARK_SESSION = 24  # the id of the Spark session that it uses from now on
    ACKED = 25  # explicit acks of one lane's offsets, [first, end), the worker's n-th such span
    REPLY = 26  # the response to one record, before its outcome: see wire/reply.py
    REPLY_PART = 27  # more of its body: seq, whether it is the last, the bytes
    DONE = 28  # where several run at once: seq and ns of what has ended, well unless named before
    NACK = 29  # JSON: a record has failed, whether its handler has returned or not, and why
    PRODUCE = 30  # a message for a topic, and the record that it is of
    METRICS = 31  # JSON: a metric of the handler's own, and what has come to it: see wire/metrics.py


# Looked up for each frame: the constructor of an enum is slower.
_KINDS = {kind.value: kind for kind in FrameKind}
_LONG = {FrameKind.REPLY, FrameKind.PRODUCE}


def frame(kind: FrameKind, *parts: Buffer) -> bytes:
    """Return one frame whose body is `parts`, in order."""
    return b"".join((frame_head(kind, sum(map(len, parts))), *parts))


def frame_head(kind: FrameKind, body_bytes: int) -> bytes:
    """Return what goes before a body of that many bytes."""
    return _HEAD.pack(_KIND_BYTES + body_bytes, kind, _SIGNATURE)


def json_frame(kind: FrameKind, content: object) -> bytes:
    """Return a frame whose body is JSON: for kinds that are sent rarely."""
    return frame(kind, json.dumps(content).encode())


def decode_json(body: Buffer) -> Any:
    """Return the content of a `json_frame`."""
    return json.loads(bytes(body))


def split_frames(received: bytearray, *, from_worker: bool = False) -> Iterator[tuple[FrameKind, bytes]]:
    """Take the complete frames out of `received`; what is left begins with an incomplete one.

    `from_worker`: lengths are limited. Raises ProtocolViolationError for what is no frame, or is too long.
    """
    at, size = 0, len(received)
    view = memoryview(received)
    try:
        while size - at >= _HEAD.size:
            length, kind, signature = _HEAD.unpack_from(received, at)
            end = at + 4 + length
            if signature != _SIGNATURE or kind not in _KINDS or length < _KIND_BYTES:
                raise ProtocolViolationError(f"a frame of kind {kind} and {length} bytes")
            # Before all of it is here: a false length would have the processor wait, and keep what comes.
            if from_worker and length > (_MAX_LONG_BYTES if kind in _LONG else _MAX_SHORT_BYTES):
                raise ProtocolViolationError(f"a frame of kind {kind} and {length} bytes")
            # The rest is on its way.
            if end > size:
                break
            yield _KINDS[kind], bytes(view[at + _HEAD.size : end])
            at = end
    finally:
        # A bytearray that a view looks into can't be cut.
        view.release()
        del received[:at]


def partial_chunk(incomplete: bytearray) -> tuple[int, memoryview] | None:
    """Return the size of the CHUNK that `incomplete` begins, and its bytes that are here; None for others."""
    if len(incomplete) < _HEAD.size:
        return None
    length, kind, _ = _HEAD.unpack_from(incomplete)
    return (length - _KIND_BYTES, memoryview(incomplete)[_HEAD.size :]) if kind == FrameKind.CHUNK else None


def has_nested_frame(incomplete: bytearray) -> bool:
    """Whether another frame begins in the one that `incomplete` begins: that was never written to its end."""
    return incomplete.find(_SIGNATURE, _HEAD.size) >= 0


def bounded(text: str, max_chars: int) -> str:
    """Return `text`, or only its two ends where it has more than `max_chars` characters."""
    if len(text) <= max_chars:
        return text
    # Both ends of it: the last lines of a traceback say what went wrong.
    half = (max_chars - _NOTE) // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def bounded_values(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values that are bound to a log line, cut to MAX_LINE characters in all.

    Long values become text of at most MAX_REASON characters. Where not all fit, `left_out` says how many
    don't. Values are of JSON's types.
    """
    kept: dict[str, object] = {}
    chars_left = MAX_LINE
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value)
        chars_left -= len(name) + min(len(text), MAX_REASON)
        if chars_left < 0:
            return kept | {"left_out": f"{len(values) - len(kept)} values"}
        kept[name] = value if len(text) <= MAX_REASON else bounded(text, MAX_REASON)
    return kept

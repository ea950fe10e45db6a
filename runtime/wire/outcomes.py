"""Outcomes of records, and explicit acks of handlers, as frames from a worker.

Spans are of sequence numbers (see wire/records.py) and half-open; times are ns.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import lru_cache
from typing import Any

from headrace.runtime.wire.framing import (
    MAX_LINE,
    MAX_REASON,
    FrameKind,
    bounded,
    bounded_values,
    decode_json,
    frame,
    frame_head,
    json_frame,
)

_SEQ = struct.Struct("<Q")
_OFFSET = struct.Struct("<q")
_PROGRESS = struct.Struct("<QQIQ")
_SPAN = struct.Struct("<QQ")
_FAILED = struct.Struct("<QQ?")
_ACKED = struct.Struct("<IqqI")
_ACK = struct.Struct("<i?H")
# Bytes of the stamp of a log that an ACK may have.
_MAX_STAMP = 256
_MAX_OFFSET = 2**63 - 1


@dataclass(slots=True)
class Ack:  # not frozen: there is one per record, and that would double its cost
    """A handler's ack of one offset, or with `is_through` of all up to it.

    Acks that came one after another, of offsets that follow each other, are one, of `count` offsets.
    `log`: the stamp of the log that the offset is of; empty where nobody knows.
    """

    topic: str
    partition: int
    offset: int
    is_through: bool
    count: int = 1
    log: str = ""

    @property
    def first(self) -> int:
        """Lowest offset; `offset` is the highest."""
        return self.offset - self.count + 1

    def singles(self) -> "Iterator[Ack]":
        """Acks of one offset each, which make up this one."""
        return (replace(self, offset=offset, count=1) for offset in range(self.first, self.offset + 1))


@dataclass(frozen=True, slots=True)
class Nack:
    """A handler's statement that one record has failed, whether the handler has returned or not.

    `log`: the stamp of the log that the offset is of; empty where nobody knows.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    log: str = ""


def is_another_log(stamp: str, other: str) -> bool:
    """Whether two stamps, each `ID:CUTS`, name logs of different ids. One without an id may be of any log."""
    one_id, other_id = stamp.rpartition(":")[0], other.rpartition(":")[0]
    return bool(one_id and other_id) and one_id != other_id


def encode_progress(seq: int, handler_ns: int, count: int, slowest_ns: int = 0) -> bytes:
    """Return a PROGRESS frame: all before `seq` succeeded, but for those that were named.

    `count` records were run since the last PROGRESS, in `handler_ns`, the slowest in `slowest_ns` (0: nobody
    knows).
    """
    return frame(FrameKind.PROGRESS, _PROGRESS.pack(seq, handler_ns, count, slowest_ns))


def decode_progress(body: bytes) -> tuple[int, int, int, int]:
    """Return `seq, handler_ns, count, slowest_ns`."""
    seq, handler_ns, count, slowest_ns = _PROGRESS.unpack(body)
    return seq, handler_ns, count, slowest_ns


def encode_done(ended: Sequence[tuple[int, int]]) -> bytes:
    """Return a DONE frame: each `seq` that has ended, and how long its handler took, ns."""
    return frame(FrameKind.DONE, *[_SPAN.pack(*one) for one in ended])


def decode_done(body: bytes) -> list[tuple[int, int]]:
    """Return `seq, handler_ns` of each record that has ended."""
    return list(_SPAN.iter_unpack(body))


def encode_about(kind: FrameKind, seq: int, text: str) -> bytes:
    """Return a LOG or CANCEL frame: a text about one record."""
    return frame(kind, _SEQ.pack(seq), text.encode(errors="backslashreplace"))


def decode_about(body: bytes) -> tuple[int, str]:
    """Return `seq, text`."""
    return _SEQ.unpack_from(body)[0], body[_SEQ.size :].decode()


def decode_log(body: bytes) -> tuple[int, dict[str, Any]]:
    """Return `seq, line` of a LOG: level, message, with; perhaps of, source, error. All texts are bounded.

    Raises KeyError, TypeError or ValueError for what is no line.
    """
    seq, text = decode_about(body)
    line = json.loads(text)
    for name, kind in (("level", int), ("message", str), ("with", dict)):
        if not isinstance(line[name], kind):
            raise TypeError(name)
    for name in ("source", "error"):
        if name in line:
            line[name] = bounded(str(line[name]), MAX_REASON)
    if "of" in line:
        topic, partition, offset = line["of"]
        if not (isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int)):
            raise TypeError("of")
        line["of"] = (bounded(topic, MAX_REASON), partition, offset)
    if len(text) > MAX_LINE:
        line["with"] = bounded_values(line["with"])
    return seq, line


def encode_failed(first: int, end: int, reason: str, *, is_named: bool = False) -> bytes:
    """Return a FAILED frame, of records `[first, end)`.

    `is_named`: the handler has blamed each of them by itself, not all of them together.
    """
    # Bounded by both ends: a handler may write to the socket itself.
    reason = bounded(reason, MAX_REASON)
    return frame(
        FrameKind.FAILED, _FAILED.pack(first, end, is_named), reason.encode(errors="backslashreplace")
    )


def decode_failed(body: bytes) -> tuple[int, int, bool, str]:
    """Return `first, end, is_named, reason`."""
    first, end, is_named = _FAILED.unpack_from(body)
    return first, end, is_named, bounded(body[_FAILED.size :].decode(), MAX_REASON)


def encode_init_failed(reason: str) -> bytes:
    """Return an INIT_FAILED frame."""
    return frame(FrameKind.INIT_FAILED, bounded(reason, MAX_REASON).encode(errors="backslashreplace"))


def decode_init_failed(body: bytes) -> str:
    """Return why the handler can't be loaded."""
    return bounded(body.decode(), MAX_REASON)


def encode_seq(kind: FrameKind, seq: int) -> bytes:
    """Return an UNACKED frame."""
    return frame(kind, _SEQ.pack(seq))


def decode_seq(body: bytes) -> int:
    """Return the record of an UNACKED."""
    return int(_SEQ.unpack(body)[0])


def encode_returned(spans: Sequence[tuple[int, int]]) -> bytes:
    """Return a RETURNED frame: spans of seq that were not started."""
    return frame(FrameKind.RETURNED, *[_SPAN.pack(*span) for span in spans])


def decode_returned(body: bytes) -> list[tuple[int, int]]:
    """Return the spans of a RETURNED."""
    return list(_SPAN.iter_unpack(body))


# ---- explicit acks


def encode_ack(ack: Ack) -> bytes:
    """Return an ACK frame.

    An offset that Kafka can't have becomes the nearest that it can: it is refused all the same.
    """
    offset = max(-1, min(ack.offset, _MAX_OFFSET))
    return _encode_ack_about(ack.topic, ack.partition, ack.is_through, ack.log) + _OFFSET.pack(offset)


@lru_cache(maxsize=1024)
def _encode_ack_about(topic: str, partition: int, is_through: bool, log: str) -> bytes:
    """Return what goes before the offset: cached, for it is the same for thousands of acks."""
    stamp = log.encode()[:_MAX_STAMP]
    about = _ACK.pack(partition, is_through, len(stamp)) + stamp + topic.encode()
    return frame_head(FrameKind.ACK, len(about) + _OFFSET.size) + about


def decode_ack(body: bytes) -> Ack:
    """Return the ack. Raises ValueError or struct.error for what is none."""
    partition, is_through, stamp_bytes = _ACK.unpack_from(body)
    at = _ACK.size + stamp_bytes
    if at > len(body) - _OFFSET.size:
        raise ValueError("a stamp longer than its frame")
    topic = body[at : -_OFFSET.size].decode()
    return Ack(topic, partition, decode_ack_offset(body), is_through, log=body[_ACK.size : at].decode())


def decode_ack_offset(body: bytes) -> int:
    """Return the offset of an ACK, its last 8 bytes: all before them says what it is of."""
    return int.from_bytes(body[-_OFFSET.size :], "little", signed=True)


def encode_acked(lane_id: int, first: int, end: int, number: int) -> bytes:
    """Return an ACKED frame: what an AckSlot has held."""
    return frame(FrameKind.ACKED, _ACKED.pack(lane_id, first, end, number))


def decode_acked(body: bytes) -> tuple[int, int, int, int]:
    """Return `lane_id, first, end, number`."""
    lane_id, first, end, number = _ACKED.unpack(body)
    return lane_id, first, end, number


def encode_nack(nack: Nack) -> bytes:
    """Return a NACK frame. Offsets that Kafka can't have are changed like those of an ACK."""
    offset = max(-1, min(nack.offset, _MAX_OFFSET))
    return json_frame(
        FrameKind.NACK, {**asdict(nack), "offset": offset, "reason": bounded(nack.reason, MAX_REASON)}
    )


def decode_nack(body: bytes) -> Nack:
    """Return the nack. Raises TypeError where it has other parts, or of other types."""
    nack = Nack(**decode_json(body))
    for value, expected in zip(astuple(nack), (str, int, int, str, str), strict=True):
        # Not isinstance: True would pass for a number.
        if type(value) is not expected:
            raise TypeError(f"{value!r}")
    return replace(nack, reason=bounded(nack.reason, MAX_REASON))

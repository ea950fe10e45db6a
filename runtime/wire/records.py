"""The bytes between a processor and one of its workers, over a socketpair. docs/design/wire.md.

A frame is its length (of all that follows), a signed kind and a body. Numbers are little-endian. Every record
that is sent to a worker has a sequence number `seq`, counted per worker from 0; spans of them are half-open.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias

from headrace.runtime.wire.framing import MAX_REASON, bounded

Buffer: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class ProtocolViolationError(Exception):
    """A worker says what can't be, or what it can't know: nothing that it says from then on counts."""


class FrameKind(IntEnum):
    """What a frame says. Below 16: to the worker; from 16 on: from it."""

    START = 1  # JSON: WorkerStart; the first frame
    LANE = 2  # JSON: id, topic, partition, log; before its first run
    RUN = 3  # records to handle, in order
    RECALL = 4  # give back what hasn't started of one lane
    STOP = 5  # exit once idle
    FORGET = 6  # a lane is over, and nothing of it is here
    DRAIN = 7  # partitions are being taken away: call the drain callback
    TERMINATE = 8  # the replica stops: call the termination callback
    OWNED = (
        9  # JSON: the partitions of all triggers that may be acked here, and their logs; replaces the last
    )
    CANCEL = 10  # seq, then UTF-8: why that record is to be cancelled, if it still runs
    TAKEN = 11  # seq, and how many bytes of its answer's parts were taken; all ones: nobody takes any more
    CHUNK = 12  # undecoded records, which the SLICE behind it names, and others may
    SLICE = 13  # records of a CHUNK to handle, in order
    PRODUCED = 14  # what became of messages that it had produced: see wire/produce.py
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


class WireRecord(Protocol):
    """What a run is made of; aiokafka's ConsumerRecord is one. Times are ms since the epoch, -1 for none."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...  # None in the oldest logs, whatever the client says
    @property
    def timestamp_type(self) -> int | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


class SentRecord(NamedTuple):
    """A record as the worker gets it; a WireRecord."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    encoded_headers: bytes

    @property
    def headers(self) -> Headers:
        """Decoded anew each time."""
        return decode_headers(self.encoded_headers)


@dataclass(frozen=True, slots=True)
class RunHeader:
    """What a run says before its records. `attempt` counts deliveries of each of them, from 1.

    `has_more`: the next run belongs to the same batch. `whole_id`: of the lane that LANE has told of, where
    this is of one key of it; None where that is this one.
    """

    lane_id: int
    epoch: int
    first_seq: int
    attempt: int
    count: int
    has_more: bool = False
    whole_id: int | None = None

    @property
    def place_id(self) -> int:
        """Of the lane that LANE has told of."""
        return self.lane_id if self.whole_id is None else self.whole_id


@dataclass(slots=True)
class Ack:  # not frozen: there is one per record, and that would double its cost
    """A handler's statement on one offset, or with `is_through` on all up to it.

    Statements that came one after another on offsets that follow each other are one, on `count` of them.
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
        """The lowest offset; `offset` is the highest."""
        return self.offset - self.count + 1

    def singles(self) -> "Iterator[Ack]":
        """Those that it was joined of."""
        return (replace(self, offset=offset, count=1) for offset in range(self.first, self.offset + 1))


@dataclass(frozen=True, slots=True)
class Nack:
    """A handler's statement that one record has failed, whether its handler has returned or not.

    `log` as in Ack.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    log: str = ""


def is_another_log(stamp: str, other: str) -> bool:
    """Whether two stamps, each `ID:CUTS`, name logs of different ids. What has no id may be any."""
    one_id, other_id = stamp.rpartition(":")[0], other.rpartition(":")[0]
    return bool(one_id and other_id) and one_id != other_id


# Of one frame from a worker: a reply may be long, anything else is short.
_MAX_REPLY_BYTES = 64 << 20
_MAX_SAID_BYTES = 2 << 20
# Beside each kind, so that bytes that are no frame are noticed at once. None of the three is ever in UTF-8.
_SIGN = b"\xfe\xc0\xff"
_FRAME = struct.Struct("<IB3s")
_KIND_BYTES = 4
_KINDS = {kind.value: kind for kind in FrameKind}
_LONG = {FrameKind.REPLY, FrameKind.PRODUCE}
_RUN = struct.Struct("<IIQII?I")
_SLICE = struct.Struct("<IIq?")
_SEQ = struct.Struct("<Q")
_OFFSET = struct.Struct("<q")
_PROGRESS = struct.Struct("<QQIQ")
_SPAN = struct.Struct("<QQ")
_FAILED = struct.Struct("<QQ?")
_LANE = struct.Struct("<I")
_ACKED = struct.Struct("<IqqI")
_ACK = struct.Struct("<i?H")
_LENGTH = struct.Struct("<i")
_NO_VALUE = -1
_MAX_STAMP = 256
_MAX_OFFSET = 2**63 - 1
_RANGE = struct.Struct("<q")


def frame(kind: FrameKind, *parts: Buffer) -> bytes:
    """One frame of `parts`, in order."""
    return b"".join((_head(kind, sum(map(len, parts))), *parts))


def _head(kind: FrameKind, body_bytes: int) -> bytes:
    return _FRAME.pack(_KIND_BYTES + body_bytes, kind, _SIGN)


def json_frame(kind: FrameKind, content: object) -> bytes:
    """A frame for what is said rarely."""
    return frame(kind, json.dumps(content).encode())


def decode_json(body: Buffer) -> Any:
    """The content of a `json_frame`."""
    return json.loads(bytes(body))


def split_frames(received: bytearray, *, is_said: bool = False) -> Iterator[tuple[FrameKind, bytes]]:
    """Take the complete frames out of `received`; what is left begins with an incomplete one.

    Raises ProtocolViolationError for what is no frame, and for a worker's frame (`is_said`) that is too long.
    """
    at, size = 0, len(received)
    view = memoryview(received)
    try:
        while size - at >= _FRAME.size:
            length, kind, sign = _FRAME.unpack_from(received, at)
            end = at + 4 + length
            if sign != _SIGN or kind not in _KINDS or length < _KIND_BYTES:
                raise ProtocolViolationError(f"a frame of kind {kind} and {length} bytes")
            if is_said and length > (_MAX_REPLY_BYTES if kind in _LONG else _MAX_SAID_BYTES):
                raise ProtocolViolationError(f"a frame of kind {kind} and {length} bytes")
            if end > size:
                break
            yield _KINDS[kind], bytes(view[at + _FRAME.size : end])
            at = end
    finally:
        view.release()
        del received[:at]


def chunk_begun(incomplete: bytearray) -> tuple[int, memoryview] | None:
    """How large the CHUNK is that `incomplete` begins, once frames are split off, and what is there of it."""
    if len(incomplete) < _FRAME.size:
        return None
    length, kind, _ = _FRAME.unpack_from(incomplete)
    return (length - _KIND_BYTES, memoryview(incomplete)[_FRAME.size :]) if kind == FrameKind.CHUNK else None


def has_swallowed(incomplete: bytearray) -> bool:
    """Whether the frame that `incomplete` begins has another one in it: it was never written to its end."""
    return incomplete.find(_SIGN, _FRAME.size) >= 0


def encode_run(header: RunHeader, records: Sequence[WireRecord]) -> bytes:
    """A RUN frame: the header, then columns, then keys, values and headers."""
    n = len(records)
    keys = [r.key for r in records]
    values = [r.value for r in records]
    headers = [encode_headers(r.headers) if r.headers else b"" for r in records]
    columns = struct.pack(
        f"<{n}q{n}q{n}b{n}i{n}i{n}i",
        *[r.offset for r in records],
        *[-1 if r.timestamp is None else r.timestamp for r in records],
        *[-1 if r.timestamp_type is None else r.timestamp_type for r in records],
        *[_NO_VALUE if key is None else len(key) for key in keys],
        *[_NO_VALUE if value is None else len(value) for value in values],
        *map(len, headers),
    )
    return frame(
        FrameKind.RUN, _pack_header(header), columns, *filter(None, keys), *filter(None, values), *headers
    )


def _pack_header(header: RunHeader) -> bytes:
    h = header
    return _RUN.pack(h.lane_id, h.epoch, h.first_seq, h.attempt, h.count, h.has_more, h.place_id)


def encode_chunk(size: int) -> bytes:
    """What goes before the `size` bytes of a CHUNK; the SLICE behind it names them."""
    return _head(FrameKind.CHUNK, size)


def encode_slice(header: RunHeader, chunk_id: int, skip: int, first_offset: int, *, is_end: bool) -> bytes:
    """A SLICE frame: records of that chunk without its first `skip`, from `first_offset` on.

    `is_end`: up to its last one.
    """
    return frame(FrameKind.SLICE, _pack_header(header), _SLICE.pack(chunk_id, skip, first_offset, is_end))


def decode_slice(body: bytes) -> tuple[int, int, int, bool]:
    """`chunk_id, skip, first_offset, is_end`, from behind a SLICE's header."""
    chunk_id, skip, first_offset, is_end = _SLICE.unpack_from(body, _RUN.size)
    return chunk_id, skip, first_offset, is_end


def decode_run_header(body: bytes) -> RunHeader:
    """The first part of a RUN or a SLICE; cheap, so that the rest can wait until it is its worker's next."""
    lane_id, epoch, first_seq, attempt, count, has_more, place_id = _RUN.unpack_from(body)
    whole_id = None if place_id == lane_id else place_id
    return RunHeader(lane_id, epoch, first_seq, attempt, count, has_more, whole_id)


def decode_run_span(body: bytes) -> tuple[int, int]:
    """The first offset of a RUN, and the one after its last."""
    count = _RUN.unpack_from(body)[4]
    (first,) = _OFFSET.unpack_from(body, _RUN.size)
    (last,) = _OFFSET.unpack_from(body, _RUN.size + (count - 1) * _OFFSET.size)
    return first, last + 1


def decode_records(body: bytes) -> list[SentRecord]:
    """The records of a RUN."""
    n = _RUN.unpack_from(body)[4]
    columns = struct.Struct(f"<{n}q{n}q{n}b{n}i{n}i{n}i")
    cells = columns.unpack_from(body, _RUN.size)
    at = _RUN.size + columns.size
    keys, at = _cut(body, at, cells[3 * n : 4 * n])
    values, at = _cut(body, at, cells[4 * n : 5 * n])
    headers, _ = _cut(body, at, cells[5 * n :])
    columns_of_rows = (cells[:n], cells[n : 2 * n], cells[2 * n : 3 * n], keys, values, headers)
    return list(map(SentRecord._make, zip(*columns_of_rows, strict=True)))


def _cut(body: bytes, at: int, lengths: Sequence[int]) -> tuple[list[bytes | None], int]:
    cells: list[bytes | None] = []
    for length in lengths:
        if length == _NO_VALUE:
            cells.append(None)
        else:
            cells.append(body[at : at + length])
            at += length
    return cells, at


def encode_range(first: int) -> bytes:
    """The value of a record that stands for a range of offsets, `first` to the record's own."""
    return _RANGE.pack(first)


def decode_range(value: bytes) -> int:
    """`first`."""
    return int(_RANGE.unpack(value)[0])


def encode_headers(headers: Headers) -> bytes:
    """Every pair in order; names with undecodable bytes come back as they were."""
    parts = []
    for name, value in headers:
        raw = name.encode(errors="surrogateescape")
        length = _NO_VALUE if value is None else len(value)
        parts += [_LENGTH.pack(len(raw)), raw, _LENGTH.pack(length), value or b""]
    return b"".join(parts)


def decode_headers(blob: bytes) -> list[tuple[str, bytes | None]]:
    """What `encode_headers` was given."""
    pairs = []
    at = 0
    while at < len(blob):
        begin = at
        (name,), at = _cut(blob, at + 4, _LENGTH.unpack_from(blob, at))
        (value,), at = _cut(blob, at + 4, _LENGTH.unpack_from(blob, at))
        if not begin + 2 * _LENGTH.size <= at <= len(blob):  # a length below -1 may go back, for ever
            raise ProtocolViolationError("headers whose lengths can't be")
        pairs.append(((name or b"").decode(errors="surrogateescape"), value))
    return pairs


def encode_recall(lane_id: int) -> bytes:
    """RECALL: what hasn't started of this lane."""
    return frame(FrameKind.RECALL, _LANE.pack(lane_id))


def encode_forget(lane_id: int) -> bytes:
    """FORGET: this lane."""
    return frame(FrameKind.FORGET, _LANE.pack(lane_id))


def decode_lane_id(body: bytes) -> int:
    """Of a RECALL or FORGET."""
    return int(_LANE.unpack(body)[0])


def encode_progress(seq: int, handler_ns: int, count: int, slowest_ns: int = 0) -> bytes:
    """PROGRESS: all before `seq`; `count` records were run since the last one, in `handler_ns`.

    One of them took `slowest_ns`; 0: that isn't known.
    """
    return frame(FrameKind.PROGRESS, _PROGRESS.pack(seq, handler_ns, count, slowest_ns))


def decode_progress(body: bytes) -> tuple[int, int, int, int]:
    """`seq, handler_ns, count, slowest_ns`."""
    seq, handler_ns, count, slowest_ns = _PROGRESS.unpack(body)
    return seq, handler_ns, count, slowest_ns


def encode_done(ended: Sequence[tuple[int, int]]) -> bytes:
    """DONE: each `seq`, and how long its handler took, ns."""
    return frame(FrameKind.DONE, *[_SPAN.pack(*one) for one in ended])


def decode_done(body: bytes) -> list[tuple[int, int]]:
    """`seq, handler_ns` of each."""
    return list(_SPAN.iter_unpack(body))


def encode_about(kind: FrameKind, seq: int, text: str) -> bytes:
    """LOG or CANCEL: a text about one record."""
    return frame(kind, _SEQ.pack(seq), text.encode(errors="backslashreplace"))


def decode_about(body: bytes) -> tuple[int, str]:
    """`seq, text`."""
    return _SEQ.unpack_from(body)[0], body[_SEQ.size :].decode()


def encode_failed(first: int, end: int, reason: str, *, is_named: bool = False) -> bytes:
    """FAILED. `is_named`: the handler has said it of each of them, not of all together."""
    reason = bounded(reason, MAX_REASON)
    return frame(
        FrameKind.FAILED, _FAILED.pack(first, end, is_named), reason.encode(errors="backslashreplace")
    )


def decode_failed(body: bytes) -> tuple[int, int, bool, str]:
    """`first, end, is_named, reason`."""
    first, end, is_named = _FAILED.unpack_from(body)
    return first, end, is_named, bounded(body[_FAILED.size :].decode(), MAX_REASON)


def encode_init_failed(reason: str) -> bytes:
    """INIT_FAILED."""
    return frame(FrameKind.INIT_FAILED, bounded(reason, MAX_REASON).encode(errors="backslashreplace"))


def decode_init_failed(body: bytes) -> str:
    """Why."""
    return bounded(body.decode(), MAX_REASON)


def encode_seq(kind: FrameKind, seq: int) -> bytes:
    """UNACKED."""
    return frame(kind, _SEQ.pack(seq))


def decode_seq(body: bytes) -> int:
    """Of an UNACKED."""
    return int(_SEQ.unpack(body)[0])


def encode_ack(ack: Ack) -> bytes:
    """ACK. Offsets that Kafka can't have become the nearest that it can: they are refused all the same."""
    offset = max(-1, min(ack.offset, _MAX_OFFSET))
    return _encode_ack_about(ack.topic, ack.partition, ack.is_through, ack.log) + _OFFSET.pack(offset)


def encode_nack(nack: Nack) -> bytes:
    """NACK. Offsets as in `encode_ack`."""
    offset = max(-1, min(nack.offset, _MAX_OFFSET))
    return json_frame(
        FrameKind.NACK, {**asdict(nack), "offset": offset, "reason": bounded(nack.reason, MAX_REASON)}
    )


def decode_nack(body: bytes) -> Nack:
    """The nack. Raises where it has other parts, or of other types."""
    nack = Nack(**decode_json(body))
    for value, expected in zip(astuple(nack), (str, int, int, str, str), strict=True):
        if type(value) is not expected:
            raise TypeError(f"{value!r}")
    return replace(nack, reason=bounded(nack.reason, MAX_REASON))


@lru_cache(maxsize=1024)
def _encode_ack_about(topic: str, partition: int, is_through: bool, log: str) -> bytes:  # cached by it
    """What goes before the offset: the same for thousands of acks."""
    stamp = log.encode()[:_MAX_STAMP]
    about = _ACK.pack(partition, is_through, len(stamp)) + stamp + topic.encode()
    return _head(FrameKind.ACK, len(about) + _OFFSET.size) + about


def decode_ack(body: bytes) -> Ack:
    """The ack."""
    partition, is_through, stamp_bytes = _ACK.unpack_from(body)
    at = _ACK.size + stamp_bytes
    if at > len(body) - _OFFSET.size:
        raise ValueError("a stamp longer than its frame")
    topic = body[at : -_OFFSET.size].decode()
    return Ack(topic, partition, decode_ack_offset(body), is_through, log=body[_ACK.size : at].decode())


def decode_ack_offset(body: bytes) -> int:
    """The end of an ACK."""
    return int.from_bytes(body[-_OFFSET.size :], "little", signed=True)


def encode_acked(lane_id: int, first: int, end: int, number: int) -> bytes:
    """ACKED."""
    return frame(FrameKind.ACKED, _ACKED.pack(lane_id, first, end, number))


def decode_acked(body: bytes) -> tuple[int, int, int, int]:
    """`lane_id, first, end, number`."""
    lane_id, first, end, number = _ACKED.unpack(body)
    return lane_id, first, end, number


def encode_returned(spans: Sequence[tuple[int, int]]) -> bytes:
    """RETURNED: spans of seq that were not started."""
    return frame(FrameKind.RETURNED, *[_SPAN.pack(*span) for span in spans])


def decode_returned(body: bytes) -> list[tuple[int, int]]:
    """The spans."""
    return list(_SPAN.iter_unpack(body))

"""Records on their way to a worker: RUN frames, or a CHUNK of undecoded ones and SLICEs of it.

Each record that is sent to a worker has a sequence number `seq`, counted per worker process from 0. Spans of
them are half-open.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from headrace.runtime.wire.framing import FrameKind, ProtocolViolationError, frame, frame_head

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

_RUN = struct.Struct("<IIQII?I")
_SLICE = struct.Struct("<IIq?")
_OFFSET = struct.Struct("<q")
_LANE = struct.Struct("<I")
_LENGTH = struct.Struct("<i")
# Length of a key, value or header that is null: an empty one is something else.
_NO_VALUE = -1


class WireRecord(Protocol):
    """A record of any source, as lanes and runs have it; aiokafka's ConsumerRecord is one.

    `timestamp` is ms since the epoch, -1 for none.
    """

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
    """A record as the worker gets it; a WireRecord. Headers stay encoded until a handler asks for them."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    # Most handlers never look at them.
    encoded_headers: bytes

    @property
    def headers(self) -> Headers:
        """Pairs of name and value, in order. Decoded anew each time."""
        return decode_headers(self.encoded_headers)


@dataclass(frozen=True, slots=True)
class RunHeader:
    """The head of a run, before its records. `attempt` counts deliveries of each of them, from 1.

    `epoch`: of the lane; a failure in the worker ends it there. `has_more`: the next run belongs to the same
    batch. `whole_id`: the id of the lane that LANE has announced, where this is of one key of it; None where
    that is this one.
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
        """Id of the lane that LANE has announced."""
        return self.lane_id if self.whole_id is None else self.whole_id


def encode_run(header: RunHeader, records: Sequence[WireRecord]) -> bytes:
    """Return a RUN frame: the header, then columns, then keys, values and headers."""
    # Column by column: one call of pack for a run costs a fraction of what one for each record would.
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
    """Return what goes before the `size` bytes of a CHUNK; the SLICE behind it names them."""
    return frame_head(FrameKind.CHUNK, size)


def encode_slice(header: RunHeader, chunk_id: int, skip: int, first_offset: int, *, is_end: bool) -> bytes:
    """Return a SLICE frame: records of that chunk without its first `skip`, from `first_offset` on.

    `is_end`: up to the chunk's last one.
    """
    return frame(FrameKind.SLICE, _pack_header(header), _SLICE.pack(chunk_id, skip, first_offset, is_end))


def decode_slice(body: bytes) -> tuple[int, int, int, bool]:
    """Return `chunk_id, skip, first_offset, is_end`, from behind a SLICE's header."""
    chunk_id, skip, first_offset, is_end = _SLICE.unpack_from(body, _RUN.size)
    return chunk_id, skip, first_offset, is_end


def decode_run_header(body: bytes) -> RunHeader:
    """Return the header of a RUN or a SLICE; cheap: the rest waits until the run is the worker's next."""
    lane_id, epoch, first_seq, attempt, count, has_more, place_id = _RUN.unpack_from(body)
    # Equal where the lane is a whole one: the wire always has both.
    whole_id = None if place_id == lane_id else place_id
    return RunHeader(lane_id, epoch, first_seq, attempt, count, has_more, whole_id)


def decode_run_span(body: bytes) -> tuple[int, int]:
    """Return the first offset of a RUN, and the one after its last."""
    # Offsets are the first column: two of them are enough, and nothing else is decoded.
    count = _RUN.unpack_from(body)[4]
    (first,) = _OFFSET.unpack_from(body, _RUN.size)
    (last,) = _OFFSET.unpack_from(body, _RUN.size + (count - 1) * _OFFSET.size)
    return first, last + 1


def decode_records(body: bytes) -> list[SentRecord]:
    """Return the records of a RUN."""
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
    """Return the value of a record that stands for a range of offsets, `first` to the record's own."""
    return _OFFSET.pack(first)


def decode_range(value: bytes) -> int:
    """Return the first offset of a range."""
    return int(_OFFSET.unpack(value)[0])


def encode_headers(headers: Headers) -> bytes:
    """Return every pair in order; names with undecodable bytes come back as they were."""
    parts = []
    for name, value in headers:
        # Kafka's header names are any bytes; UTF-8 isn't checked by a broker.
        raw = name.encode(errors="surrogateescape")
        length = _NO_VALUE if value is None else len(value)
        parts += [_LENGTH.pack(len(raw)), raw, _LENGTH.pack(length), value or b""]
    return b"".join(parts)


def decode_headers(blob: bytes) -> list[tuple[str, bytes | None]]:
    """Return what `encode_headers` was given. Raises ProtocolViolationError for impossible lengths."""
    pairs = []
    at = 0
    while at < len(blob):
        begin = at
        (name,), at = _cut(blob, at + 4, _LENGTH.unpack_from(blob, at))
        (value,), at = _cut(blob, at + 4, _LENGTH.unpack_from(blob, at))
        # A length below -1 would go back, and be read again for ever.
        if not begin + 2 * _LENGTH.size <= at <= len(blob):
            raise ProtocolViolationError("headers whose lengths can't be")
        pairs.append(((name or b"").decode(errors="surrogateescape"), value))
    return pairs


def encode_recall(lane_id: int) -> bytes:
    """Return a RECALL frame: what hasn't started of this lane is to come back."""
    return frame(FrameKind.RECALL, _LANE.pack(lane_id))


def encode_forget(lane_id: int) -> bytes:
    """Return a FORGET frame: this lane is over."""
    return frame(FrameKind.FORGET, _LANE.pack(lane_id))


def decode_lane_id(body: bytes) -> int:
    """Return the lane of a RECALL or FORGET."""
    return int(_LANE.unpack(body)[0])

"""Replies of handlers, where a client waits for them: REPLY, REPLY_PART and TAKEN frames."""

import struct
from dataclasses import dataclass

from headrace.runtime.wire.framing import FrameKind, frame
from headrace.runtime.wire.records import Headers, decode_headers, encode_headers

# Seq, status, has_more, and how many bytes content type and headers have.
_REPLY = struct.Struct("<QI?II")
_PART = struct.Struct("<Q?")
_TAKEN = struct.Struct("<QQ")
NOBODY = 2**64 - 1
"""Number of bytes in a TAKEN which says that nobody takes any more."""
REPLY_WINDOW_BYTES = 1 << 20
"""Bytes by which the parts of a reply may be ahead of the client that takes them."""
MAX_PART_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Reply:
    """A response. Headers are pairs, in order; names may repeat. `has_more`: parts of the body follow."""

    status: int
    content_type: str
    headers: Headers
    body: bytes
    has_more: bool = False


def encode_reply(seq: int, reply: Reply) -> bytes:
    """Return a REPLY to record `seq`."""
    # A handler may set any text; an odd one comes out as it went in.
    content_type = reply.content_type.encode(errors="surrogateescape")
    headers = encode_headers(reply.headers)
    head = _REPLY.pack(seq, reply.status, reply.has_more, len(content_type), len(headers))
    return frame(FrameKind.REPLY, head, content_type, headers, reply.body)


def decode_reply(body: bytes) -> tuple[int, Reply]:
    """Return `seq, reply`."""
    seq, status, has_more, content_type_bytes, header_bytes = _REPLY.unpack_from(body)
    headers_at = _REPLY.size + content_type_bytes
    body_at = headers_at + header_bytes
    content_type = body[_REPLY.size : headers_at].decode(errors="surrogateescape")
    headers = tuple(decode_headers(body[headers_at:body_at]))
    return seq, Reply(status, content_type, headers, body[body_at:], has_more)


def encode_part(seq: int, data: bytes, *, is_last: bool) -> bytes:
    """Return a REPLY_PART, of at most MAX_PART_BYTES."""
    return frame(FrameKind.REPLY_PART, _PART.pack(seq, is_last), data)


def decode_part(body: bytes) -> tuple[int, bool, bytes]:
    """Return `seq, is_last, data`."""
    return *_PART.unpack_from(body), body[_PART.size :]


def encode_taken(seq: int, byte_count: int) -> bytes:
    """Return a TAKEN: so many of the bytes in parts were taken since the reply began; or NOBODY."""
    return frame(FrameKind.TAKEN, _TAKEN.pack(seq, byte_count))


def decode_taken(body: bytes) -> tuple[int, int]:
    """Return `seq, byte_count`."""
    seq, byte_count = _TAKEN.unpack(body)
    return seq, byte_count

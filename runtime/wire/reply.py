"""What a handler answers, where somebody waits for it: a REPLY frame."""

import struct
from dataclasses import dataclass

from headrace.runtime.wire.frames import Headers, Kind, decode_headers, encode_headers, frame

_REPLY = struct.Struct("<QIII")  # seq, status, and the bytes of content type and headers


@dataclass(frozen=True, slots=True)
class Reply:
    """A response. Headers as pairs, in order; a name may come twice."""

    status: int
    content_type: str
    headers: Headers
    body: bytes


def encode_reply(seq: int, reply: Reply) -> bytes:
    """REPLY to record `seq`."""
    content_type = reply.content_type.encode(errors="surrogateescape")
    headers = encode_headers(reply.headers)
    head = _REPLY.pack(seq, reply.status, len(content_type), len(headers))
    return frame(Kind.REPLY, head, content_type, headers, reply.body)


def decode_reply(body: bytes) -> tuple[int, Reply]:
    """`seq, reply`."""
    seq, status, content_type_bytes, header_bytes = _REPLY.unpack_from(body)
    headers_at = _REPLY.size + content_type_bytes
    body_at = headers_at + header_bytes
    content_type = body[_REPLY.size : headers_at].decode(errors="surrogateescape")
    headers = tuple(decode_headers(body[headers_at:body_at]))
    return seq, Reply(status, content_type, headers, body[body_at:])

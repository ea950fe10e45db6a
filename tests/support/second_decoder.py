"""Requests and responses decoded by hand, as protobuf's encoding is specified, without generated classes."""

import struct
from collections.abc import Iterator


def fields_of(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field. Raises ValueError for what is no message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire_type not in {1, 2, 5}:
            raise ValueError(f"wire type {wire_type}")
        size, at = _varint(data, at) if wire_type == 2 else (8 if wire_type == 1 else 4, at)
        if at + size > len(data):
            raise ValueError("it ends early")
        yield number, data[at : at + size]
        at += size


def response(data: bytes) -> tuple[int, bool]:
    """Sequence and isprocessed. The last value counts, and what is absent is 0."""
    found = dict(fields_of(data))
    return _int32(found.get(1, 0)), bool(found.get(2, 0))


def request(data: bytes) -> tuple[int, str]:
    """Sequence and payload."""
    found = dict(fields_of(data))
    payload = found.get(2, b"")
    assert isinstance(payload, bytes)
    return _int32(found.get(1, 0)), payload.decode()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("it ends early")
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise ValueError("a varint of more than 10 bytes")


def _int32(value: int | bytes) -> int:
    """Negative ones have 10 bytes: their sign goes through 64 bits."""
    assert isinstance(value, int)
    (found,) = struct.unpack("<i", struct.pack("<I", value & 0xFFFFFFFF))
    return int(found)

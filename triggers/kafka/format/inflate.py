"""Compressed bytes, opened into no more than a batch may take: nobody knows what a producer has packed."""

import struct
from collections.abc import Callable, Iterator, Mapping

import cramjam

from headrace.runtime.wire.framing import Buffer

PAD_BYTES = 64
"""Zeros behind all that aiokafka reads: its reader in C may look a few bytes past an end."""
_FIRST_RATIO = 16
_FIRST_BYTES = 1 << 16
_NO_ROOM = "whole buffer"  # of what Rust says there; cramjam has no class for it
_XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
_LENGTH = struct.Struct(">i")
_INTO: Mapping[int, Callable[[Buffer, memoryview], int]] = {
    1: cramjam.gzip.decompress_into,
    3: cramjam.lz4.decompress_into,
    4: cramjam.zstd.decompress_into,
}
_SNAPPY = 2


class BatchTooLargeError(Exception):
    """A batch opens to more than `maxBatchBytes`."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"it opens to more than maxBatchBytes ({max_bytes}) allows")


def inflate(codec: int, packed: Buffer, max_bytes: int, head: Buffer = b"") -> memoryview:
    """Return `head`, and behind it what `packed` opens to, with zeros behind that. Bounds the memory.

    Raises BatchTooLargeError where that is more than `max_bytes`, and what a codec raises.
    """
    if codec == _SNAPPY:
        return _snappy(packed, max_bytes, head)
    if codec not in _INTO:
        raise ValueError(f"no codec has the number {codec}")
    into, size = _INTO[codec], max(_FIRST_BYTES, _FIRST_RATIO * len(packed))
    while True:
        size = min(size, max_bytes)
        out = _with_room(head, size)
        try:
            end = len(head) + into(packed, memoryview(out)[len(head) : len(head) + size])
        except cramjam.DecompressionError as error:
            # These codecs need not say how large they get: more room is tried, up to the bound.
            if _NO_ROOM not in str(error):
                raise
            if size == max_bytes:
                raise BatchTooLargeError(max_bytes) from None
            del out  # before a larger one is made
            size *= _FIRST_RATIO
            continue
        return memoryview(out)[:end]


def padded(data: Buffer) -> memoryview:
    """Return a copy with zeros behind it."""
    return memoryview(b"".join((data, bytes(PAD_BYTES))))[: len(data)]


def _with_room(head: Buffer, size: int) -> bytearray:
    out = bytearray(len(head) + size + PAD_BYTES)
    out[: len(head)] = head
    return out


def _snappy(packed: Buffer, max_bytes: int, head: Buffer) -> memoryview:
    """Open snappy's blocks, each of which says how large it gets."""
    view = memoryview(packed)
    is_in_blocks = len(view) > len(_XERIAL) and view[: len(_XERIAL)] == _XERIAL
    blocks = list(_blocks(view)) if is_in_blocks else [view]
    size = 0
    for block in blocks:
        # Summed before anything is opened: many small blocks can open to more than the bound, too.
        size += cramjam.snappy.decompress_raw_len(block)
        if size > max_bytes:
            raise BatchTooLargeError(max_bytes)
    out = _with_room(head, size)
    room, at = memoryview(out), len(head)
    for block in blocks:
        at += cramjam.snappy.decompress_raw_into(block, room[at : len(head) + size])
    return room[:at]


def _blocks(view: memoryview) -> Iterator[memoryview]:
    at = len(_XERIAL)
    while at < len(view):
        (length,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        if not 0 < length <= len(view) - at:
            raise ValueError(f"a block of snappy has no {length} bytes")
        yield view[at : at + length]
        at += length

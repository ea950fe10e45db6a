"""Confluent's wire format: what a schema registry's clients put before a protobuf message."""

_MAGIC = 0
_SCHEMA_ID_BYTES = 4
_MOST_VARINT_BYTES = 10
_MOST_INDEXES = 100  # of messages inside messages


def unframed(value: bytes) -> bytes | None:
    """The message behind magic byte, schema id and message indexes; None where these are not there."""
    if len(value) <= 1 + _SCHEMA_ID_BYTES or value[0] != _MAGIC:
        return None
    found = _varint(value, 1 + _SCHEMA_ID_BYTES)
    if found is None:
        return None
    count, at = found
    if not 0 <= count <= _MOST_INDEXES:  # 0 stands for the first message
        return None
    for _ in range(count):
        if (found := _varint(value, at)) is None:
            return None
        _, at = found
    return value[at:]


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """A zigzag number at `at`, and where it ends."""
    number = 0
    for length, byte in enumerate(data[at : at + _MOST_VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * length)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + length + 1
    return None

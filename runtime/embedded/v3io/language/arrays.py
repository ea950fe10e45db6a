"""Arrays of numbers in attributes of type B: a header, then longs or doubles."""

import struct

from headrace.runtime.embedded.v3io.language.errors import MalformedError
from headrace.runtime.embedded.v3io.language.values import is_number

_ARRAY_HEADER = struct.Struct("<IIII")  # magic, version, bytes of the elements, their type
_MAGIC, _VERSION = 11223344, 1
_FORMATS = {259: "<q", 261: "<d"}
_ELEMENT_BYTES = 8


def element(blob: object, index: object) -> int | float | None:
    """The one at `index`; None where there is none, the blob is no array, or it is no finite number."""
    found = _element_place(blob, index)
    if found is None:
        return None
    assert isinstance(blob, bytes)
    place, pattern = found
    value: int | float = struct.unpack_from(pattern, blob, place)[0]
    return value if is_number(value) else None


def with_element(blob: object, index: object, value: object) -> bytes:
    """The array with another number there. MalformedError where that can't be."""
    found = _element_place(blob, index)
    if found is None or not is_number(value):
        raise MalformedError("only a number can be set, at an index that an array has")
    assert isinstance(blob, bytes)
    place, pattern = found
    changed = bytearray(blob)
    try:
        struct.pack_into(pattern, changed, place, value)
    except struct.error as error:
        raise MalformedError(f"an array of whole numbers can't have {value}") from error
    return bytes(changed)


def _element_place(blob: object, index: object) -> tuple[int, str] | None:
    """Where the element begins, and its struct format."""
    if not isinstance(blob, bytes) or len(blob) < _ARRAY_HEADER.size or type(index) is not int:
        return None
    magic, version, size, kind = _ARRAY_HEADER.unpack_from(blob)
    if (magic, version) != (_MAGIC, _VERSION) or kind not in _FORMATS:
        return None
    place = _ARRAY_HEADER.size + index * _ELEMENT_BYTES
    end = min(_ARRAY_HEADER.size + size, len(blob))
    return (place, _FORMATS[kind]) if index >= 0 and place + _ELEMENT_BYTES <= end else None

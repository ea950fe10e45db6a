"""Values of attributes: typed as in requests, `{"N": "1"}`, and as conditions and expressions take them."""

import base64
import binascii
import math
import re
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple


class MalformedError(ValueError):
    """A value, a condition or an expression that is none: the text says what was found, and what may be."""


Typed = Mapping[str, Any]
"""A value as in requests: its type, one of S, N, BOOL, B and TS, and its text."""
MAX_CHARACTERS = 61_200
"""The length of the longest string."""
_MAX_DIGITS = 400
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_MOMENT = re.compile(r"(-?[0-9]{1,19}):([0-9]{1,9})")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_LONGS = range(-(2**63), 2**63)


class Moment(NamedTuple):
    """A timestamp, since 1970."""

    seconds: int
    nanoseconds: int


Value = str | int | float | bool | bytes | Moment


def check_name(name: str) -> None:
    """Check the name of an attribute. MalformedError where none may be called that."""
    if not _NAME.fullmatch(name):
        raise MalformedError(
            f"{name[:80]!r} names no attribute: use up to 255 letters, digits and underscores, no digit first"
        )


def number(text: str) -> int | float:
    """Return a text as a long or a double. MalformedError for a text that is neither."""
    if len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text):
        raise MalformedError(f"{text[:40]!r} is no number")
    # The length was checked before: Python's int takes quadratic time.
    found = int(text) if _WHOLE.fullmatch(text) else float(text)
    if not is_number(found):
        raise MalformedError(f"{text[:40]} is too large: numbers have 64 bits")
    return found


def is_number(value: object) -> bool:
    """Whether the value is a long or a double that can be kept."""
    if isinstance(value, bool):  # which is an int to Python
        return False
    if isinstance(value, int):
        return value in _LONGS
    return isinstance(value, float) and math.isfinite(value)


def decoded(typed: object) -> Value:
    """Return the value of a typed one. MalformedError for what is no typed value."""
    if not isinstance(typed, Mapping) or len(typed) != 1:
        raise MalformedError('a value has one type, as in {"S": "text"}')
    ((kind, raw),) = typed.items()
    if kind == "BOOL" and isinstance(raw, bool):
        return raw
    if not isinstance(raw, str) or kind not in _DECODERS:
        raise MalformedError(f"a value of type {str(kind)[:40]!r} is S, N, B or TS with a string, or BOOL")
    return _DECODERS[kind](raw)


def encoded(value: Value) -> Typed:
    """Return the value with its type, as in answers."""
    if isinstance(value, bool):  # before numbers: it is an int to Python
        return {"BOOL": value}
    if isinstance(value, Moment):
        return {"TS": f"{value.seconds}:{value.nanoseconds}"}
    if isinstance(value, bytes):
        return {"B": base64.b64encode(value).decode()}
    return {"S": value} if isinstance(value, str) else {"N": str(value)}


def _text(raw: str) -> str:
    if len(raw) > MAX_CHARACTERS:
        raise MalformedError(f"a string of {len(raw)} characters is too long: at most {MAX_CHARACTERS}")
    try:
        raw.encode()
    except UnicodeEncodeError as error:
        raise MalformedError("a string has half of a surrogate pair: send whole characters") from error
    return raw


def _blob(raw: str) -> bytes:
    try:
        return base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedError(f"a value of type B is base64: {error}") from error


def _moment(raw: str) -> Moment:
    found = _MOMENT.fullmatch(raw)
    if found is None:
        raise MalformedError(f"{raw[:40]!r} is no TS: send seconds:nanoseconds")
    return Moment(int(found[1]), int(found[2]))


_DECODERS = {"S": _text, "N": number, "B": _blob, "TS": _moment}
_ARRAY_HEADER = struct.Struct("<IIII")  # magic, version, bytes of the elements, their type
_MAGIC, _VERSION = 11223344, 1
_FORMATS = {259: "<q", 261: "<d"}
_ELEMENT_BYTES = 8


def element(blob: object, index: object) -> int | float | None:
    """Return the number at `index` of an array; None where there is none, or it is not finite.

    An array is a blob with a header, then longs or doubles. What is no array has no numbers.
    """
    found = _element_place(blob, index)
    if found is None:
        return None
    assert isinstance(blob, bytes)
    place, pattern = found
    value: int | float = struct.unpack_from(pattern, blob, place)[0]
    return value if is_number(value) else None


def with_element(blob: object, index: object, value: object) -> bytes:
    """Return the array with another number at `index`. MalformedError where that can't be."""
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
    """Return where an element begins, and its struct format; None where the array has none there."""
    if not isinstance(blob, bytes) or len(blob) < _ARRAY_HEADER.size or type(index) is not int:
        return None
    magic, version, size, kind = _ARRAY_HEADER.unpack_from(blob)
    if (magic, version) != (_MAGIC, _VERSION) or kind not in _FORMATS:
        return None
    place = _ARRAY_HEADER.size + index * _ELEMENT_BYTES
    # The header says how many bytes there are, and may be wrong: the blob's end counts too.
    end = min(_ARRAY_HEADER.size + size, len(blob))
    return (place, _FORMATS[kind]) if index >= 0 and place + _ELEMENT_BYTES <= end else None
